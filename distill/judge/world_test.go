package judge

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"millrace/distill/account"
	"millrace/distill/engine"
	"millrace/distill/rehearsal"
	"millrace/internal/embedded"
	"millrace/internal/eventlog"
	"millrace/internal/unithash"
	"millrace/schemas/event"
)

// world is a topic on a real broker, an endpoint that can be made to fail, and judging between them.
type world struct {
	t        *testing.T
	cfg      eventlog.Config
	keyring  *eventlog.Keyring
	writer   *eventlog.Writer
	reader   *eventlog.Reader
	endpoint *endpoint

	now    atomic.Int64 // the clock of all who write
	low    atomic.Int64 // the workers' low watermark
	down   atomic.Bool  // the endpoint answers 500
	answer atomic.Value // of the model, to every call
	ticks  int
}

var unitKey = []byte("unit-key-unit-key")

const partitions = 2

func newWorld(t *testing.T) *world {
	t.Helper()
	kafka, err := embedded.StartKafka(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, kafka.Close()) })
	keyring, err := eventlog.NewKeyring(map[string][]byte{"1": []byte("0123456789abcdef0123456789abcdef")}, "1")
	require.NoError(t, err)
	w := &world{t: t, keyring: keyring, cfg: eventlog.Config{Brokers: kafka.Brokers(), Topic: "sessions", Partitions: partitions}}
	require.NoError(t, eventlog.Ensure(t.Context(), w.cfg))
	w.writer, err = eventlog.NewWriter(w.cfg, w.cfg.Topic)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.writer.Close()) })
	w.reader, err = eventlog.NewReader(w.cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.reader.Close()) })
	w.answer.Store(saysNo)
	w.endpoint = play(t, func(rw http.ResponseWriter, _ *http.Request, _ chat) {
		if w.down.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		say(rw, w.answer.Load().(string))
	})
	w.now.Store(rehearsal.Epoch.UnixMicro())
	w.control(rehearsal.Config(1))
	return w
}

func (w *world) clock() time.Time { return time.UnixMicro(w.now.Load()).UTC() }

// control writes a control record into every partition, at the present time.
func (w *world) control(r *event.ControlRecord) {
	w.t.Helper()
	require.NoError(w.t, eventlog.WriteControl(w.t.Context(), w.writer, w.keyring, w.cfg, r, w.clock()))
}

// pass lets time pass, and has the log say so.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	w.ticks++
	w.now.Add(d.Microseconds())
	w.control(rehearsal.Tick(fmt.Sprintf("tick-%d", w.ticks)))
}

// send writes the streams' events, in the order of each, and brings the clock to the last one's time.
func (w *world) send(streams ...*rehearsal.Stream) {
	w.t.Helper()
	for _, s := range streams {
		for _, e := range s.Events {
			m, err := eventlog.EventMessage(e, e.GetOccurredAt().AsTime())
			require.NoError(w.t, err)
			require.NoError(w.t, w.writer.Write(w.t.Context(), m)[0])
			w.now.Store(max(w.now.Load(), e.GetOccurredAt().AsTime().UnixMicro()))
		}
	}
}

// judging is one process that judges, until it is stopped.
type judging struct {
	*Judging
	registry *prometheus.Registry
	stop     func()
}

func (w *world) start(change func(*Config)) *judging {
	w.t.Helper()
	cfg := Config{pause: 5 * time.Millisecond}
	if change != nil {
		change(&cfg)
	}
	registry := prometheus.NewRegistry()
	j, err := New(cfg, Deps{
		Judge: w.endpoint.judge(w.t, func(at *Endpoint) { at.Votes = 1 }), Log: w.reader, Evidence: w.writer,
		LowWatermark: func(context.Context, int32) (int64, error) { return w.low.Load(), nil },
		Windows:      func(context.Context) (Windows, error) { return windows, nil },
		Keyring:      w.keyring, UnitKey: unitKey, Clock: w.clock, Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	})
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Run(ctx)
	}()
	stop := func() { cancel(); <-done }
	w.t.Cleanup(stop)
	w.await("the log to be read to its end", func() bool { return j.caughtUp.Load() == partitions })
	return &judging{j, registry, stop}
}

// read is the log of one partition as an engine's records.
func (w *world) read(partition int32) []engine.Record {
	w.t.Helper()
	_, next, err := w.reader.Bounds(w.t.Context(), partition)
	require.NoError(w.t, err)
	var out []engine.Record
	for offset := int64(0); offset < next; {
		records, err := w.reader.Fetch(w.t.Context(), partition, offset)
		require.NoError(w.t, err)
		for _, r := range records {
			one := engine.Record{Offset: r.Offset, Time: r.Time.UnixMicro()}
			one.Event, one.Control, one.Reject = eventlog.Decode(r, w.keyring, partitions)
			out = append(out, one)
			offset = r.Offset + 1
		}
	}
	return out
}

// evidence is all that stands in the log.
func (w *world) evidence() (out []*event.SessionEvent) {
	for p := range int32(partitions) {
		for _, r := range w.read(p) {
			if r.Event.GetEvidenceAdded() != nil {
				out = append(out, r.Event)
			}
		}
	}
	return out
}

// settled are the rows of all turns, by turn id, once time has passed for all; no record is a dead letter.
func (w *world) settled() map[string]engine.Settled {
	w.t.Helper()
	w.pass(3 * time.Hour)
	rows := map[string]engine.Settled{}
	for p := range int32(partitions) {
		e, settled := rehearsal.Run(w.read(p))
		require.Zero(w.t, e.Account().Records[account.DeadLetter])
		for _, s := range settled {
			rows[s.Row.TurnID] = s
		}
	}
	return rows
}

func (w *world) await(what string, reached func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !reached(); time.Sleep(5 * time.Millisecond) {
		require.True(w.t, time.Now().Before(deadline), "waited for: %s", what)
	}
}

func (w *world) awaitEvidence(n int) []*event.SessionEvent {
	w.t.Helper()
	w.await(fmt.Sprintf("%d verdicts in the log", n), func() bool { return len(w.evidence()) >= n })
	got := w.evidence()
	require.Len(w.t, got, n)
	return got
}

// metric is one value of what the process exports, by the values of its labels; 0 if there is none. Of a histogram it is
// the number of observations.
func (j *judging) metric(name string, labels ...string) float64 {
	families, err := j.registry.Gather()
	if err != nil {
		return -1
	}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			var values []string
			for _, label := range series.GetLabel() {
				values = append(values, label.GetValue())
			}
			if family.GetName() == "millrace_judge_"+name && slices.Equal(labels, values) {
				return series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func (j *judging) notAsked(reason string) float64 { return j.metric("not_asked_total", reason) }

func pseudonym(unit string) string { return unithash.Pseudonym(unitKey, unit) }

func (w *world) partitionOf(session string) int32 {
	return eventlog.PartitionOf([]byte(session), partitions)
}
