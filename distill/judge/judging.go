package judge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"millrace/internal/eventlog"
	"millrace/internal/unithash"
	"millrace/schemas/event"
)

// Config of the judging of a topic.
type Config struct {
	AtOnce  int // exchanges that are being judged. Default 2
	Waiting int // exchanges that wait to be, at most; then the reading waits too. Default 500
	Memory  int // bytes for the texts of open turns, over all partitions. Default 64 MiB

	pause time.Duration // before something that failed is tried again; doubles up to a minute
}

// Validate fills in defaults and says what is wrong.
func (c *Config) Validate() error {
	if c.AtOnce < 0 || c.Waiting < 0 || c.Memory < 0 {
		return fmt.Errorf("judge: %d at once, %d waiting and %d bytes must not be negative", c.AtOnce, c.Waiting, c.Memory)
	}
	c.AtOnce, c.Waiting, c.Memory = or(c.AtOnce, 2), or(c.Waiting, 500), or(c.Memory, 64<<20)
	c.pause = or(c.pause, time.Second)
	return nil
}

// Log is what is read.
type Log interface {
	Fetch(ctx context.Context, partition int32, offset int64) ([]eventlog.Record, error)
	Bounds(ctx context.Context, partition int32) (first, next int64, err error)
	Partitions(ctx context.Context) (int, error)
}

// Evidence is where verdicts are written.
type Evidence interface {
	Write(ctx context.Context, messages ...eventlog.Message) []error
}

// Deps are what judging works with.
type Deps struct {
	Judge    Judge
	Log      Log
	Evidence Evidence
	// LowWatermark is the first offset of a partition that belongs to a turn which has not settled: nothing before it
	// needs to be judged.
	LowWatermark func(ctx context.Context, partition int32) (int64, error)
	// Windows are those of the configuration in force; they are asked for again when the log says that it changed.
	Windows    func(context.Context) (Windows, error)
	Keyring    *eventlog.Keyring   // of control records: an erased unit's texts are dropped
	UnitKey    []byte              // of the units' pseudonyms
	Redact     func(string) string // takes secrets out of a text; nil: none are
	Clock      func() time.Time    // of the records that are written; nil: this machine's
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Judging reads a topic, asks the judge, and writes what it says into the topic. It has no position of its own: at a
// start it reads again from where the oldest open turn begins, sees by its own evidence what was judged, and asks about
// the rest. So a restart may ask again, and skips nothing.
type Judging struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	queue   *queue
	breaker *breaker

	caughtUp      atomic.Int64 // partitions that have been read to their end
	toldOfRefusal atomic.Bool
}

// New makes it; nothing is read or asked before Run.
func New(cfg Config, deps Deps) (*Judging, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Redact == nil {
		deps.Redact = func(text string) string { return text }
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	j := &Judging{cfg: cfg, deps: deps, breaker: newBreaker(cfg.pause)}
	j.queue = newQueue(cfg.Waiting, func(n int) { j.metrics.notAsked.WithLabelValues(skippedLate).Add(float64(n)) })
	j.metrics = newMetrics(deps.Registerer, j)
	return j, nil
}

// Run judges until ctx is done. It ends only then: whatever is away is waited for.
func (j *Judging) Run(ctx context.Context) error {
	partitions, ok := 0, false
	j.patiently(ctx, "the log can't be read", func() (err error) {
		partitions, err = j.deps.Log.Partitions(ctx)
		ok = err == nil
		return err
	})
	if !ok {
		return nil
	}
	j.queue.remove(func(*Ask) bool { return true }) // of an earlier run, which is asked anew
	var running sync.WaitGroup
	for p := range partitions {
		running.Go(func() { j.follow(ctx, int32(p), partitions) })
	}
	for range j.cfg.AtOnce {
		running.Go(func() { j.work(ctx) })
	}
	running.Wait()
	return nil
}

// patiently tries until it works or ctx ends. It says once what it waits for.
func (j *Judging) patiently(ctx context.Context, what string, try func() error) {
	for wait, tries := j.cfg.pause, 0; ctx.Err() == nil; wait, tries = min(2*wait, time.Minute), tries+1 {
		err := try()
		if err == nil || ctx.Err() != nil {
			return
		}
		if tries == 0 {
			j.deps.Logger.Warn("waiting: "+what, "error", err)
		}
		rest(ctx, wait)
	}
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// work puts one exchange after another to the judge.
func (j *Judging) work(ctx context.Context) {
	// An exchange waits in the queue and not in our hands: there it can be taken back.
	for j.queue.await(ctx) && j.breaker.wait(ctx) {
		w, ok := j.queue.take()
		if !ok {
			j.breaker.release()
			continue
		}
		if !j.put(ctx, w) {
			j.queue.back(w)
		}
		j.queue.done(w)
	}
}

// put puts one exchange to the judge. It is false if it was not looked at, and should come again.
func (j *Judging) put(ctx context.Context, w waiting) bool {
	began := time.Now()
	v, err := j.deps.Judge.Judge(ctx, w.Exchange)
	if ctx.Err() != nil {
		j.breaker.release()
		return false
	}
	j.metrics.voted(v.Votes)
	j.metrics.seconds.Observe(time.Since(began).Seconds())
	switch {
	case errors.Is(err, ErrAway):
		j.away(err)
		return false
	case err != nil:
		j.answered()
		j.deps.Logger.Warn("an exchange could not be put to the judge", "turn", w.TurnID, "error", err)
		return true
	case v.Votes.Answered() == 0:
		j.away(fmt.Errorf("%w in time", ErrAway)) // but this exchange has had its chance
	default:
		j.answered()
	}
	if v.Votes.Refused > 0 && j.toldOfRefusal.CompareAndSwap(false, true) {
		j.deps.Logger.Warn("the judge's endpoint refuses requests; does it know response_format json_schema, and are they short enough for the model? Its own log says why", "turn", w.TurnID)
	}
	if j.write(ctx, w, v) {
		j.metrics.verdict(v) // only now: what isn't in the log is asked again after a crash
	}
	return true
}

func (j *Judging) away(err error) {
	if j.breaker.failed() {
		j.deps.Logger.Warn("the judge is left alone for a while; turns settle by the structural rules meanwhile", "error", err)
	}
}

func (j *Judging) answered() {
	if j.breaker.answered() {
		j.deps.Logger.Info("the judge answers again")
	}
}

// write puts the verdict into the log, as any emitter would; false if it could not. An abstention is no evidence, and nothing to
// write.
func (j *Judging) write(ctx context.Context, w waiting, v Verdict) bool {
	e, err := w.Evidence(v, j.deps.Judge.Version())
	if e == nil && err == nil {
		return true
	}
	var m eventlog.Message
	if err == nil {
		m, err = eventlog.EventMessage(e, j.deps.Clock())
	}
	if err == nil {
		err = j.deps.Evidence.Write(ctx, m)[0]
	}
	if err != nil && ctx.Err() == nil {
		j.metrics.unwritten.Inc()
		j.deps.Logger.Error("a verdict could not be written", "turn", w.TurnID, "error", err)
	}
	return err == nil
}

// follower reads one partition.
type follower struct {
	*Judging
	partition  int32
	partitions int
	tracker    *tracker
	clock      atomic.Int64 // the tracker's log time, for those who wait
	end        int64        // of the log when we began: up to there, evidence may tell what was asked before
	live       bool         // the end was reached
	found      []*Ask       // before it was
}

// follow reads a partition from where its oldest open turn begins.
func (j *Judging) follow(ctx context.Context, partition int32, partitions int) {
	f := &follower{Judging: j, partition: partition, partitions: partitions}
	var windows Windows
	j.patiently(ctx, "the configuration can't be read", func() (err error) {
		windows, err = j.deps.Windows(ctx)
		return err
	})
	f.tracker = newTracker(j.deps.Judge.Version(), windows, j.cfg.Memory/partitions)
	f.tracker.redact, f.tracker.skipped = j.deps.Redact, f.skipped
	f.tracker.private = func(x *tracked) {
		f.takeBack(skippedNoText, func(session, turn, _ string) bool { return session == x.SessionID && turn == x.TurnID })
	}
	f.tracker.agreed = func(rating, polarity float64) {
		if f.live {
			j.metrics.rated(rating, polarity)
		}
	}
	defer func() {
		if f.live {
			j.caughtUp.Add(-1)
		}
	}()
	offset := f.begin(ctx)
	for ctx.Err() == nil {
		var records []eventlog.Record
		j.patiently(ctx, "the log can't be read", func() (err error) {
			records, err = j.deps.Log.Fetch(ctx, partition, offset)
			if errors.Is(err, eventlog.ErrPositionLost) {
				j.deps.Logger.Warn("the log no longer holds what was to be read next; going on where it does", "partition", partition, "error", err)
				offset = f.begin(ctx)
			}
			return err
		})
		for _, r := range records {
			f.record(ctx, r)
			offset = r.Offset + 1
		}
		if !f.live && (offset >= f.end || len(records) == 0) {
			f.live = true
			j.caughtUp.Add(1)
		}
		f.handOver(ctx)
	}
}

// skipped counts what nobody is asked about; what was counted before a restart isn't counted again.
func (f *follower) skipped(reason string) {
	if f.live {
		f.metrics.skipped(reason)
	}
}

// begin is the offset to read from, and notes where the log ends now.
func (f *follower) begin(ctx context.Context) (offset int64) {
	f.patiently(ctx, "the log's position is not known", func() error {
		low, err := f.deps.LowWatermark(ctx, f.partition)
		if err != nil {
			return err
		}
		first, next, err := f.deps.Log.Bounds(ctx, f.partition)
		if err != nil {
			return err
		}
		offset, f.end = max(low, first), next
		if offset > next { // the topic was made anew
			offset = first
		}
		return nil
	})
	return offset
}

func (f *follower) record(ctx context.Context, r eventlog.Record) {
	e, control, _ := eventlog.Decode(r, f.deps.Keyring, f.partitions)
	f.found = append(f.found, f.tracker.advance(r.Time.UnixMicro())...)
	f.clock.Store(f.tracker.now)
	switch {
	case e != nil:
		f.tracker.event(r.Offset, e)
	case control != nil:
		f.control(ctx, control)
	}
}

func (f *follower) control(ctx context.Context, c *event.ControlRecord) {
	switch {
	case c.GetConfigAdopted() != nil && f.live:
		windows, err := f.deps.Windows(ctx)
		if err != nil {
			f.deps.Logger.Warn("a configuration was adopted and can't be read; going on by the one before", "error", err)
			return
		}
		f.tracker.windows = windows
	case c.GetUnitErased() != nil:
		f.withhold(func(_, _, unit string) bool { return f.pseudonym(unit) == c.GetUnitErased().GetUnitHash() })
	case c.GetQuarantined() != nil:
		q := c.GetQuarantined()
		f.withhold(func(session, turn, unit string) bool {
			return (q.GetTurnId() != "" && q.GetTurnId() == turn) || (q.GetSessionId() != "" && q.GetSessionId() == session) ||
				(q.GetUnitHash() != "" && q.GetUnitHash() == f.pseudonym(unit))
		})
	}
}

func (f *follower) pseudonym(unit string) string {
	if unit == "" {
		return ""
	}
	return unithash.Pseudonym(f.deps.UnitKey, unit)
}

// withhold drops the texts of what is meant, wherever they wait.
func (f *follower) withhold(meant func(session, turn, unit string) bool) {
	f.tracker.withhold(func(x *tracked) bool { return meant(x.SessionID, x.TurnID, x.unit) })
	f.takeBack(skippedWithheld, meant)
}

// takeBack drops what waits of a turn, be it the earlier or the later one.
func (f *follower) takeBack(reason string, meant func(session, turn, unit string) bool) {
	n := f.queue.remove(func(a *Ask) bool {
		return meant(a.SessionID, a.TurnID, a.UnitID) || meant(a.SessionID, a.nextID, a.UnitID)
	})
	f.metrics.notAsked.WithLabelValues(reason).Add(float64(n))
}

// handOver gives what was found to those who ask, once it is known what was asked before. Is the queue full, it waits:
// the log keeps what comes meanwhile, and only its newest time is looked at, so that what has settled makes room.
func (f *follower) handOver(ctx context.Context) {
	if !f.live {
		kept := f.found[:0]
		for _, a := range f.found {
			if f.wanted(a) {
				kept = append(kept, a)
			}
		}
		clear(f.found[len(kept):])
		f.found = kept
		return
	}
	for _, a := range f.found {
		if f.late(a) {
			f.skipped(skippedLate)
		}
		if !f.wanted(a) {
			continue
		}
		a.turn, a.next = nil, nil
		for !f.queue.offer(waiting{a, &f.clock}) {
			rest(ctx, f.cfg.pause)
			if ctx.Err() != nil {
				return
			}
			f.peek(ctx)
		}
	}
	f.found = nil
}

// wanted says whether there is still something to ask.
func (f *follower) wanted(a *Ask) bool {
	barred := a.turn.withheld || a.turn.private || a.next.withheld || a.next.private
	return a.turn.judged == nil && !a.turn.gone && !barred && !f.late(a)
}

func (f *follower) late(a *Ask) bool { return f.clock.Load() >= a.settles }

// peek moves the clock to the newest record, without taking it.
func (f *follower) peek(ctx context.Context) {
	_, next, err := f.deps.Log.Bounds(ctx, f.partition)
	if err != nil || next == 0 {
		return
	}
	records, err := f.deps.Log.Fetch(ctx, f.partition, next-1)
	if err != nil {
		return
	}
	newest := int64(math.MinInt64)
	for _, r := range records {
		newest = max(newest, r.Time.UnixMicro())
	}
	f.clock.Store(max(f.clock.Load(), newest))
}
