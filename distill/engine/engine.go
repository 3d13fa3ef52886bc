package engine

import (
	"fmt"

	"millrace/distill/account"
	"millrace/distill/reward"
	"millrace/distill/signal"
	"millrace/distill/turn"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// Options are what an engine is told when it is made; everything else comes through the log.
type Options struct {
	Topic     string
	Partition int32
	UnitKey   []byte // of the units' pseudonyms
	// ReadSpec reads the document of a reward spec; nil: strictly, as everything that counts must. A rehearsal reads
	// drafts, to show where a spec with a block left out goes wrong.
	ReadSpec func(document []byte) (*rewardspec.Spec, error)
}

// Engine is the state of one partition.
type Engine struct {
	opts Options

	logTime int64
	config  *event.ConfigAdopted // nil before the first
	limits  limits
	reward  *reward.Reward
	cut     string // the last cut mark applied

	documents map[string][]byte // provided by the shell, by digest
	tools     map[string]*signal.ToolSchemas
	rewards   map[string]*reward.Reward // compiled, by spec and baseline digest

	sessions map[string]*session
	turns    map[turn.Key]*turn.Turn
	due      dueHeap
	seen     *memory  // dedupe keys of the window
	settled  *keepers // keys of settled turns

	scratch []byte // for one event at a time; nothing of it is state

	incidents   []*event.IncidentDeclared
	quarantined []*event.Quarantined

	balance account.Balance
	since   account.Balance // counts since the last Boundary
	batch   struct {
		records     int64
		rows, bytes uint64
	}
}

// New is the engine of a partition before its first record.
func New(opts Options) *Engine {
	if opts.ReadSpec == nil {
		opts.ReadSpec = rewardspec.Parse
	}
	return &Engine{
		opts:      opts,
		limits:    limitsOf(nil),
		documents: map[string][]byte{}, tools: map[string]*signal.ToolSchemas{}, rewards: map[string]*reward.Reward{},
		sessions: map[string]*session{}, turns: map[turn.Key]*turn.Turn{},
		seen: newMemory(), settled: newKeepers(),
		balance: account.New(), since: account.New(),
	}
}

// Apply takes one record. Time moves first: turns that are due by the record's time settle before the record
// itself is looked at, so that what a settled turn rests on never depends on how records were batched.
func (e *Engine) Apply(r Record) (eff Effects) {
	facts, halt := e.examine(r)
	if halt != "" {
		return Effects{Halt: halt}
	}
	e.batch.records++
	newHour := e.advance(r.Time, &eff)
	switch {
	case facts.reject != "":
		if facts.stub && !e.settled.has(uint64(facts.key)) {
			var unseen Effects // the record is a dead letter, whatever its stub would have been
			e.event(r, facts, &unseen)
		}
		eff.Class, eff.DeadLetter = account.DeadLetter, facts.reject
	case r.Control != nil:
		eff.Class = account.Control
		e.control(r.Control, &eff)
	default:
		e.event(r, facts, &eff)
	}
	if newHour {
		e.forgetDocuments() // after the record, which may refer to one that was provided for it
	}
	e.count(eff.Class)
	eff.Full = e.batch.rows >= e.limits.rows || e.batch.bytes >= e.limits.bytes
	return eff
}

// examined is what a record shows before anything is changed.
type examined struct {
	reject string
	key    turn.Key
	id     memoryKey
	digest uint64

	stack bool
	stub  bool // of an event that was rejected: its turn sees that there was one
}

// examine does all the work on a record that could fail, and changes nothing: a panic in it makes the record a
// dead letter, and a missing document halts the partition with the record unread.
func (e *Engine) examine(r Record) (x examined, halt string) {
	defer func() {
		if p := recover(); p != nil {
			x, halt = examined{reject: "poison"}, ""
		}
	}()
	for _, digest := range e.Needs(r) {
		if _, ok := e.documents[digest]; !ok {
			return x, fmt.Sprintf("offset %d needs the document %s, which is not in the object store", r.Offset, digest)
		}
	}
	switch {
	case r.Reject != "":
		x.reject = r.Reject
		if r.Event.GetStub() != nil && e.config != nil {
			x.stub = true
			x.key = turn.KeyOf(r.Event.GetSessionId(), r.Event.GetTurnId())
			x.id, x.digest = e.identity(r.Event)
		}
	case r.Control != nil:
		if c := r.Control.GetConfigAdopted(); c != nil && e.newer(c) {
			if _, err := e.compile(c); err != nil {
				return x, fmt.Sprintf("offset %d adopts a configuration that can't be used: %v", r.Offset, err)
			}
		}
	case r.Event == nil:
		x.reject = "empty"
	case e.config == nil:
		return x, fmt.Sprintf("offset %d: the partition has no configuration yet; `millrace migrate` writes the first one", r.Offset)
	default:
		x.key = turn.KeyOf(r.Event.GetSessionId(), r.Event.GetTurnId())
		x.id, x.digest = e.identity(r.Event)
		if s := r.Event.GetTurnStarted(); s != nil {
			x.stack = s.GetPastedStackTrace() || signal.HasStackTrace(s.GetText())
			if d := registeredTools(r.Event); d != "" {
				if err := e.compileTools(d); err != nil {
					return x, fmt.Sprintf("offset %d: tool schemas %s: %v", r.Offset, d, err)
				}
			}
		}
	}
	return x, ""
}

// Needs are the digests of the documents that the shell must have provided before it applies the record.
func (e *Engine) Needs(r Record) []string {
	if c := r.Control.GetConfigAdopted(); c != nil {
		if !e.newer(c) {
			return nil
		}
		return configDocuments(c)
	}
	if d := registeredTools(r.Event); d != "" {
		return []string{d}
	}
	return nil
}

func configDocuments(c *event.ConfigAdopted) []string {
	out := []string{c.GetRewardSpecDigest()}
	if d := c.GetBaselineDigest(); d != "" {
		out = append(out, d)
	}
	return out
}

// Has says whether a document was provided.
func (e *Engine) Has(digest string) bool { _, ok := e.documents[digest]; return ok }

// Provide gives the engine a document by its digest.
func (e *Engine) Provide(digest string, document []byte) { e.documents[digest] = document }

func (e *Engine) count(class account.Class) {
	for _, b := range []*account.Balance{&e.balance, &e.since} {
		b.Read++
		b.Records[class]++
	}
}

// ClosesBefore says whether a batch must end before the record: it moves log time into the next interval, or it
// marks a cut. Where batches end is a function of the log alone.
func (e *Engine) ClosesBefore(r Record) bool {
	if e.batch.records == 0 {
		return false
	}
	if r.Control.GetCutMarked() != nil {
		return true
	}
	return max(r.Time, e.logTime)/e.limits.interval != e.logTime/e.limits.interval
}

// Boundary ends the batch and gives the counts since the last one.
func (e *Engine) Boundary() account.Balance {
	d := e.since
	e.since = account.New()
	e.batch.records, e.batch.rows, e.batch.bytes = 0, 0, 0
	return d
}

// Pending is the number of records applied since the last boundary.
func (e *Engine) Pending() int64 { return e.batch.records }

// LogTime is the greatest time of any record so far, in µs.
func (e *Engine) LogTime() int64 { return e.logTime }

// Config is the configuration in force; nil before the first.
func (e *Engine) Config() *event.ConfigAdopted { return e.config }

// Account is the partition's balance since its first record, open turns counted afresh.
func (e *Engine) Account() account.Balance {
	b := e.balance.Clone()
	b.Open = e.open()
	return b
}

func (e *Engine) open() map[string]int64 {
	open := map[string]int64{}
	for _, t := range e.turns {
		open[t.Version()]++
	}
	return open
}

// LowWatermark is the first offset of any open turn, or next if none is open.
func (e *Engine) LowWatermark(next int64) int64 {
	low := next
	for _, t := range e.turns {
		low = min(low, t.FirstOffset)
	}
	return low
}

func (e *Engine) control(c *event.ControlRecord, eff *Effects) {
	switch body := c.GetBody().(type) {
	case *event.ControlRecord_ConfigAdopted:
		if e.newer(body.ConfigAdopted) {
			e.adopt(body.ConfigAdopted)
		}
	case *event.ControlRecord_CutMarked:
		e.cut = body.CutMarked.GetCut()
		eff.CutMark = e.cut
	case *event.ControlRecord_UnitErased:
		for _, t := range e.turns {
			if e.unitOf(t) == body.UnitErased.GetUnitHash() {
				t.Withheld = "erasure"
			}
		}
	case *event.ControlRecord_IncidentDeclared:
		e.incidents = append(e.incidents, body.IncidentDeclared)
	case *event.ControlRecord_Quarantined:
		e.quarantined = append(e.quarantined, body.Quarantined)
	}
}

// newer says whether a configuration would be put in force: the highest seq wins, a late retry of an old one does
// nothing, and needs nothing.
func (e *Engine) newer(c *event.ConfigAdopted) bool {
	return e.config == nil || c.GetSeq() > e.config.GetSeq()
}

// compile makes the reward of a configuration from the documents it names.
func (e *Engine) compile(c *event.ConfigAdopted) (*reward.Reward, error) {
	id := c.GetRewardSpecDigest() + "/" + c.GetBaselineDigest()
	if r, ok := e.rewards[id]; ok {
		return r, nil
	}
	spec, err := e.opts.ReadSpec(e.documents[c.GetRewardSpecDigest()])
	if err != nil {
		return nil, err
	}
	baseline := rewardspec.BaselineV0()
	if d := c.GetBaselineDigest(); d != "" {
		if baseline, err = rewardspec.ParseBaseline(e.documents[d]); err != nil {
			return nil, err
		}
	}
	r, err := reward.Compile(spec, c.GetRewardSpecDigest(), baseline)
	if err != nil {
		return nil, err
	}
	e.rewards[id] = r
	return r, nil
}

func (e *Engine) compileTools(digest string) error {
	if _, ok := e.tools[digest]; ok {
		return nil
	}
	t, err := signal.CompileToolSchemas(e.documents[digest])
	if err != nil {
		return err
	}
	e.tools[digest] = t
	return nil
}

// adopt puts a configuration in force; examine has compiled it.
func (e *Engine) adopt(c *event.ConfigAdopted) {
	r, err := e.compile(c)
	if err != nil {
		panic(fmt.Sprintf("configuration %d was not examined: %v", c.GetSeq(), err))
	}
	e.config, e.reward, e.limits = c, r, limitsOf(c)
}

// amendment is the ledger row of what was observed after its turn had settled.
func (e *Engine) amendment(r Record) *ledger.Row {
	ev := r.Event
	row := &ledger.Row{
		Kind: ledger.Amendment, Source: ev.GetSource(), EventID: ev.GetEventId(), EventBody: bodyName(ev),
		SessionID: ev.GetSessionId(), TurnID: ev.GetTurnId(), UnitHash: e.pseudonym(ev.GetUnitId()),
		Topic: e.opts.Topic, Partition: e.opts.Partition, FirstOffset: r.Offset, LastOffset: r.Offset,
		SettledAt: micros(e.logTime), Signals: signal.OfAmendment(ev),
	}
	if x := ev.GetEvidenceAdded(); x != nil {
		row.FollowUpClass = followUpName(x.GetFollowUp())
		row.ClassifierVersion = x.GetClassifierVersion()
	}
	return row
}
