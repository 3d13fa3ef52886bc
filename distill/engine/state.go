package engine

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"millrace/distill/account"
	"millrace/distill/turn"
	"millrace/schemas/event"
)

// stateFormat is the version of the state object. It is bumped whenever a reader of the old format would
// misread the new one; Load refuses what it doesn't know, and the partition halts with both numbers named.
//
//	2: turns that answer a settled question say which stratum their p_edit comes from. Read from a state of format 1,
//	   their rows leave p_edit_stratum null.
const (
	stateFormat       = 2
	oldestStateFormat = 1
)

// state is everything the engine knows at a commit, except the payloads of open turns (tokens, texts, arguments):
// those are listed by offset and read again from the log. The same engine gives the same bytes.
type state struct {
	Format      int              `json:"format"`
	LogTime     int64            `json:"log_time_us"`
	Cut         string           `json:"cut,omitempty"`
	Config      []byte           `json:"config,omitempty"`
	Sessions    []sessionState   `json:"sessions,omitempty"`
	Turns       []turnState      `json:"turns,omitempty"`
	Seen        []byte           `json:"seen,omitempty"`    // key (16), digest (8), log time (8), oldest first
	Settled     map[int64][]byte `json:"settled,omitempty"` // keys (8 each) by the hour in which they settled, -1: kept for good
	Incidents   [][]byte         `json:"incidents,omitempty"`
	Quarantined [][]byte         `json:"quarantined,omitempty"`
	Read        int64            `json:"read"`
	Records     map[account.Class]int64
	Opened      int64 `json:"opened"`
	SettledBy   []settledCount
}

type settledCount struct {
	account.Settled
	Turns int64
}

type sessionState struct {
	ID       string              `json:"id"`
	Sources  map[string]*numbers `json:"sources,omitempty"`
	Imported bool                `json:"imported,omitempty"`
	LastSeen int64               `json:"last_seen_us"`
}

type turnState struct {
	turn.Turn
	Entries []entryState // shadows Turn.Entries
}

type entryState struct {
	Offset  int64  `json:"o"`
	Event   []byte `json:"e"` // without its payload
	Payload bool   `json:"p,omitempty"`
}

type message interface{ MarshalVT() ([]byte, error) }

// Save is the state object. It may be taken at a boundary only: what was counted since the last one is not in it.
func (e *Engine) Save() ([]byte, error) {
	if e.batch.records != 0 {
		return nil, fmt.Errorf("state saved within a batch: %d records after the last boundary", e.batch.records)
	}
	s := state{
		Format: stateFormat, LogTime: e.logTime, Cut: e.cut, Settled: map[int64][]byte{},
		Read: e.balance.Read, Records: e.balance.Records, Opened: e.balance.Opened,
	}
	var errs []error
	encode := func(m message) []byte {
		b, err := m.MarshalVT()
		if err != nil {
			errs = append(errs, err)
		}
		return b
	}
	if e.config != nil {
		s.Config = encode(deterministic(e.config))
	}
	for _, id := range sortedKeys(e.sessions) {
		x := e.sessions[id]
		s.Sessions = append(s.Sessions, sessionState{ID: id, Sources: x.sources, Imported: x.imported, LastSeen: x.lastSeen})
	}
	for _, t := range e.turns {
		ts := turnState{Turn: *t, Entries: make([]entryState, len(t.Entries))}
		for i, entry := range t.Entries {
			stripped, payload := strip(entry.Event)
			ts.Entries[i] = entryState{Offset: entry.Offset, Event: encode(stripped), Payload: payload}
		}
		s.Turns = append(s.Turns, ts)
	}
	slices.SortFunc(s.Turns, func(a, b turnState) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	for _, r := range e.seen.order[e.seen.head:] {
		s.Seen = append(s.Seen, r.key[:]...)
		s.Seen = binary.LittleEndian.AppendUint64(s.Seen, e.seen.digests[r.key])
		s.Seen = binary.LittleEndian.AppendUint64(s.Seen, uint64(r.at))
	}
	for h, keys := range e.settled.byHour {
		var packed []byte
		for _, k := range keys {
			packed = binary.LittleEndian.AppendUint64(packed, k)
		}
		s.Settled[h] = packed
	}
	for _, i := range e.incidents {
		s.Incidents = append(s.Incidents, encode(i))
	}
	for _, q := range e.quarantined {
		s.Quarantined = append(s.Quarantined, encode(q))
	}
	for k, n := range e.balance.Settled {
		s.SettledBy = append(s.SettledBy, settledCount{k, n})
	}
	slices.SortFunc(s.SettledBy, func(a, b settledCount) int {
		return cmp.Or(cmp.Compare(a.PolicyVersion, b.PolicyVersion), cmp.Compare(a.Arm, b.Arm), cmp.Compare(a.Disposition, b.Disposition))
	})
	if len(errs) > 0 {
		return nil, fmt.Errorf("saving the state: %w", errs[0])
	}
	return json.Marshal(s)
}

// deterministic makes the configuration's only map encode in one order: protobuf leaves that open, and the state
// object is named by its content.
func deterministic(c *event.ConfigAdopted) message { return orderedConfig{c} }

type orderedConfig struct{ config *event.ConfigAdopted }

func (o orderedConfig) MarshalVT() ([]byte, error) {
	plain := o.config.CloneVT()
	plain.PolicyOrdinals = nil
	out, err := plain.MarshalVT()
	if err != nil {
		return nil, err
	}
	// Concatenated protobuf messages merge: one message for each entry, in key order.
	for _, version := range sortedKeys(o.config.GetPolicyOrdinals()) {
		one, err := (&event.ConfigAdopted{PolicyOrdinals: map[string]int64{version: o.config.GetPolicyOrdinals()[version]}}).MarshalVT()
		if err != nil {
			return nil, err
		}
		out = append(out, one...)
	}
	return out, nil
}

// strip gives a copy of the event without its payload, and whether there was any.
func strip(ev *event.SessionEvent) (stripped *event.SessionEvent, payload bool) {
	switch body := ev.GetBody().(type) {
	case *event.SessionEvent_TurnStarted:
		if body.TurnStarted.GetText() != "" {
			c := ev.CloneVT()
			c.GetTurnStarted().Text = ""
			return c, true
		}
	case *event.SessionEvent_StepCompleted:
		s := body.StepCompleted
		if len(s.GetPromptTokenIds())+len(s.GetOutputTokenIds())+len(s.GetOutputLogprobs())+len(s.GetOutputMask()) > 0 {
			c := ev.CloneVT()
			x := c.GetStepCompleted()
			x.PromptTokenIds, x.OutputTokenIds, x.OutputLogprobs, x.OutputMask = nil, nil, nil, nil
			return c, true
		}
	case *event.SessionEvent_ToolCalled:
		if body.ToolCalled.GetRaw() != nil {
			c := ev.CloneVT()
			c.GetToolCalled().Raw = nil
			return c, true
		}
	case *event.SessionEvent_ToolReturned:
		if body.ToolReturned.GetOutput() != "" {
			c := ev.CloneVT()
			c.GetToolReturned().Output = ""
			return c, true
		}
	case *event.SessionEvent_EditObserved:
		if len(body.EditObserved.GetHunks()) > 0 {
			c := ev.CloneVT()
			c.GetEditObserved().Hunks = nil
			return c, true
		}
	}
	return ev, false
}

// Restored is an engine on its way back: documents and payloads are still to be given to it.
type Restored struct {
	engine *Engine
	wanted map[int64]*turn.Entry
}

// Load reads a state object. Before the engine can go on, the shell provides the documents of Needs and the
// events at the offsets of Wanted.
func Load(opts Options, data []byte) (*Restored, error) {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading the state object: %w", err)
	}
	if s.Format < oldestStateFormat || s.Format > stateFormat {
		return nil, fmt.Errorf("the state object has format %d; this build reads %d to %d", s.Format, oldestStateFormat, stateFormat)
	}
	e := New(opts)
	e.logTime, e.cut = s.LogTime, s.Cut
	e.balance.Read, e.balance.Opened = s.Read, s.Opened
	maps.Copy(e.balance.Records, s.Records)
	for _, c := range s.SettledBy {
		e.balance.Settled[c.Settled] = c.Turns
	}
	if s.Config != nil {
		e.config = &event.ConfigAdopted{}
		if err := e.config.UnmarshalVT(s.Config); err != nil {
			return nil, fmt.Errorf("reading the state's configuration: %w", err)
		}
	}
	for _, x := range s.Sessions {
		n := e.session(x.ID)
		n.imported, n.lastSeen = x.Imported, x.LastSeen
		if x.Sources != nil {
			n.sources = x.Sources
		}
	}
	r := &Restored{engine: e, wanted: map[int64]*turn.Entry{}}
	for i := range s.Turns {
		if err := r.loadTurn(&s.Turns[i]); err != nil {
			return nil, err
		}
	}
	for b := s.Seen; len(b) >= 32; b = b[32:] {
		var key memoryKey
		copy(key[:], b)
		e.seen.add(key, binary.LittleEndian.Uint64(b[16:]), int64(binary.LittleEndian.Uint64(b[24:])))
	}
	for h, packed := range s.Settled {
		for b := packed; len(b) >= 8; b = b[8:] {
			e.settled.add(binary.LittleEndian.Uint64(b), h*hour, h == forever)
		}
	}
	for _, b := range s.Incidents {
		x := &event.IncidentDeclared{}
		if err := x.UnmarshalVT(b); err != nil {
			return nil, fmt.Errorf("reading the state's incidents: %w", err)
		}
		e.incidents = append(e.incidents, x)
	}
	for _, b := range s.Quarantined {
		x := &event.Quarantined{}
		if err := x.UnmarshalVT(b); err != nil {
			return nil, fmt.Errorf("reading the state's quarantines: %w", err)
		}
		e.quarantined = append(e.quarantined, x)
	}
	return r, nil
}

func (r *Restored) loadTurn(s *turnState) error {
	t := s.Turn
	t.Entries = make([]turn.Entry, len(s.Entries))
	for i, x := range s.Entries {
		ev := &event.SessionEvent{}
		if err := ev.UnmarshalVT(x.Event); err != nil {
			return fmt.Errorf("reading the state: event at offset %d: %w", x.Offset, err)
		}
		t.Entries[i] = turn.Entry{Offset: x.Offset, Event: ev}
		if x.Payload {
			r.wanted[x.Offset] = &t.Entries[i]
		}
	}
	e := r.engine
	e.turns[t.Key] = &t
	e.session(t.SessionID).open[t.Key] = &t
	heap.Push(&e.due, due{t.Deadline, t.FirstOffset, t.Key})
	return nil
}

// Needs are the digests of the documents that the restored engine rests on.
func (r *Restored) Needs() []string {
	var out []string
	if r.engine.config != nil {
		out = configDocuments(r.engine.config)
	}
	for _, t := range r.engine.turns {
		for _, entry := range t.Entries {
			if d := registeredTools(entry.Event); d != "" && !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// registeredTools is the digest of the tool schemas that a turn's start refers to; "" if none is stamped, or what is
// there can't be a digest: the turn's calls are then not checked against a schema.
func registeredTools(ev *event.SessionEvent) string {
	d := ev.GetTurnStarted().GetContext().GetToolSchemaDigest()
	if !ev.GetSchemaRegistered() || !digest.MatchString(d) {
		return ""
	}
	return d
}

var digest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Wanted says whether the event at an offset must be read again.
func (r *Restored) Wanted(offset int64) bool { _, ok := r.wanted[offset]; return ok }

// Missing is the number of events that are still to be read again.
func (r *Restored) Missing() int { return len(r.wanted) }

// Provide gives the engine a document by its digest.
func (r *Restored) Provide(digest string, document []byte) { r.engine.Provide(digest, document) }

// Reread puts an event's payload back.
func (r *Restored) Reread(offset int64, ev *event.SessionEvent) {
	if entry, ok := r.wanted[offset]; ok {
		entry.Event = ev
		delete(r.wanted, offset)
	}
}

// Engine is the engine as it was when it was saved. It fails while payloads or documents are missing, and if the
// open turns are not as many as the balance says.
func (r *Restored) Engine() (*Engine, error) {
	e := r.engine
	if n := len(r.wanted); n > 0 {
		return nil, fmt.Errorf("%d events of open turns are no longer in the log", n)
	}
	if e.config != nil {
		w, err := e.compile(e.config)
		if err != nil {
			return nil, fmt.Errorf("the configuration in force: %w", err)
		}
		e.reward, e.limits = w, limitsOf(e.config)
	}
	for _, t := range e.turns {
		for _, entry := range t.Entries {
			if d := registeredTools(entry.Event); d != "" {
				if err := e.compileTools(d); err != nil {
					return nil, fmt.Errorf("tool schemas %s: %w", d, err)
				}
			}
		}
	}
	if err := e.Account().Check(); err != nil {
		return nil, fmt.Errorf("the restored state does not balance: %w", err)
	}
	return e, nil
}
