package scorecard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"millrace/distill/account"
	"millrace/distill/engine"
	"millrace/distill/judge"
	"millrace/distill/reward"
	"millrace/ingest/dialect"
	"millrace/schemas/event"
	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
	"millrace/schemas/sample"
)

// Config is what to score, and by which rules.
type Config struct {
	Paths  []string // files and folders
	Format string   // of the files; dialect.Auto: what each looks like
	Spec   string   // file of a reward spec; "": the shipped one

	// Judge is asked what users' next requests show, where structure can't tell; it gives its evidence. Nil: nobody is.
	Judge func(asks []*judge.Ask, notAsked map[string]int) ([]*event.SessionEvent, error)
}

// Scored is what came of a set of transcripts.
type Scored struct {
	Read       *dialect.Result
	Rows       []ledger.Row // one for every settled turn, in the order in which they settled
	Amendments []ledger.Row
	Samples    []sample.Row
	Balance    account.Balance
	Rejected   []dialect.Problem // events that the schema refuses
	Reward     *reward.Reward

	tools    map[string][]byte     // documents of tool schemas, by digest
	evidence []*event.SessionEvent // of a judge
}

// The log of a score: the windows of the default configuration.
const (
	lateness = 10 * time.Second
	maxTurn  = 2 * time.Hour
	topic    = "score"
)

// unitKey makes the pseudonym of the one unit there is: whoever's machine it is. It need not be secret.
var unitKey = []byte("millrace score")

// Score reads the transcripts and runs them through an engine of one partition, with the events' own times as the log's:
// first the configuration, then the events in the order of their time, then a tick that is late enough for all to settle.
func Score(c Config) (*Scored, error) {
	spec, document, err := loadSpec(c.Spec)
	if err != nil {
		return nil, err
	}
	s := &Scored{tools: map[string][]byte{}}
	if s.Read, err = read(c.Format, c.Paths); err != nil {
		return nil, err
	}
	digest := digestOf(document)
	if s.Reward, err = reward.Compile(spec, digest, rewardspec.BaselineV0()); err != nil {
		return nil, err
	}
	if len(s.Read.Events) == 0 {
		s.Balance = account.New()
		return s, nil
	}
	events, err := s.judged(c, spec)
	if err != nil {
		return nil, err
	}
	e := engine.New(engine.Options{Topic: topic, UnitKey: unitKey})
	e.Provide(digest, document)
	first, last := events[0].Event, events[len(events)-1].Event
	records := make([]engine.Record, 0, len(events)+2)
	add := func(r engine.Record) {
		r.Offset = int64(len(records))
		records = append(records, r)
	}
	add(engine.Record{Time: micros(first), Control: &event.ControlRecord{Id: "config", Body: &event.ControlRecord_ConfigAdopted{
		ConfigAdopted: &event.ConfigAdopted{
			Seq: 1, RewardSpecDigest: digest, RewardSpecName: spec.ID(), LatenessMs: lateness.Milliseconds(), MaxTurnMs: maxTurn.Milliseconds(),
		},
	}}})
	for _, located := range events {
		add(s.record(located))
	}
	add(engine.Record{
		Time:    micros(last) + (max(maxTurn, spec.SettleAfter) + lateness).Microseconds(),
		Control: &event.ControlRecord{Id: "end", Body: &event.ControlRecord_Tick{Tick: &event.Tick{}}},
	})
	for _, r := range records {
		if err := s.apply(e, r); err != nil {
			return nil, err
		}
	}
	s.Balance = e.Account()
	return s, nil
}

// record is an event as the log would hold it: checked, and with its tool schemas registered, which is the gateway's
// work elsewhere.
func (s *Scored) record(l dialect.Located) engine.Record {
	l.Event.SchemaRegistered = true
	if started := l.Event.GetSessionStarted(); started != nil {
		document, digest := event.ToolSchemaDocument(started.GetTools())
		s.tools[digest] = document
	}
	r := engine.Record{Time: micros(l.Event), Event: l.Event}
	if bad := event.Validate(l.Event); bad != nil {
		r.Event, r.Reject = nil, bad.Reason
		s.Rejected = append(s.Rejected, dialect.Problem{File: l.File, Line: l.Line, Reason: bad.Field + ": " + bad.Message})
	}
	return r
}

func (s *Scored) apply(e *engine.Engine, r engine.Record) error {
	for _, digest := range e.Needs(r) {
		if document, ok := s.tools[digest]; ok && !e.Has(digest) {
			e.Provide(digest, document)
		}
	}
	effects := e.Apply(r)
	if effects.Halt != "" {
		return fmt.Errorf("the engine can't go on: %s", effects.Halt)
	}
	for _, settled := range effects.Settled {
		s.Rows = append(s.Rows, settled.Row)
		s.Samples = append(s.Samples, settled.Samples...)
	}
	if effects.Amendment != nil {
		s.Amendments = append(s.Amendments, *effects.Amendment)
	}
	e.Boundary()
	return nil
}

func loadSpec(path string) (*rewardspec.Spec, []byte, error) {
	if path == "" {
		spec, document := rewardspec.Default()
		return spec, document, nil
	}
	document, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reward spec: %w", err)
	}
	spec, err := rewardspec.Parse(document)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return spec, document, nil
}

func digestOf(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

func micros(e *event.SessionEvent) int64 { return e.GetOccurredAt().AsTime().UnixMicro() }

// Check proves that nothing was lost on the way: every line, every record and every turn is accounted for.
func (s *Scored) Check() error {
	if err := s.Read.Check(); err != nil {
		return err
	}
	if err := s.Balance.Check(); err != nil {
		return err
	}
	if n := int64(len(s.Read.Events) + len(s.evidence)); n > 0 && s.Balance.Read != n+2 {
		return fmt.Errorf("records: %d events and 2 control records were made, but %d read", n, s.Balance.Read)
	}
	if n := int64(len(s.Rows)); n != s.Balance.SettledTurns() || s.Balance.OpenTurns() != 0 {
		return fmt.Errorf("turns: %d rows of %d settled turns, %d still open", n, s.Balance.SettledTurns(), s.Balance.OpenTurns())
	}
	return nil
}
