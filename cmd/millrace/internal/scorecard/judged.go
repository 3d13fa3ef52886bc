package scorecard

import (
	"slices"

	"millrace/distill/judge"
	"millrace/ingest/dialect"
	"millrace/ingest/privacy"
	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

// Judged is what somebody outside was asked of the transcripts, and what came of it.
type Judged struct {
	URL       string         `json:"url"`
	Version   string         `json:"classifier_version"`
	Pairs     int            `json:"pairs"` // of requests that were sent
	Calls     int64          `json:"calls"`
	Bytes     int64          `json:"bytes"` // of the calls' bodies
	Verdicts  int            `json:"verdicts"`
	Abstained map[string]int `json:"abstained"`
	Failed    int            `json:"failed"`    // pairs that were not looked at: the endpoint was away
	NotAsked  map[string]int `json:"not_asked"` // pairs that were not sent, by the reason
}

// judged puts the pairs of requests that structure can't tell to whoever the configuration names, and gives the events
// with his evidence among them, as the log would have them. Without anybody nothing is asked.
func (s *Scored) judged(c Config, spec *rewardspec.Spec) ([]dialect.Located, error) {
	located := s.Read.Events
	if c.Judge == nil {
		return located, nil
	}
	events := make([]*event.SessionEvent, len(located))
	for i, l := range located {
		events[i] = l.Event
	}
	asks, notAsked := judge.Asks(events, judge.Windows{SettleAfter: spec.SettleAfter, MaxTurn: maxTurn, Lateness: lateness}, func(text string) string {
		clean, _ := privacy.Text(text)
		return clean
	})
	var err error
	if s.evidence, err = c.Judge(asks, notAsked); err != nil {
		return nil, err
	}
	located = slices.Clone(located)
	for _, e := range s.evidence {
		located = append(located, dialect.Located{Event: e, File: e.GetSource()})
	}
	slices.SortStableFunc(located, func(a, b dialect.Located) int {
		return a.Event.GetOccurredAt().AsTime().Compare(b.Event.GetOccurredAt().AsTime())
	})
	return located, nil
}
