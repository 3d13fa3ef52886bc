package judge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/schemas/event"
)

// Source is the source of the evidence that a judge's verdict becomes.
const Source = "judge"

// Ask is an exchange that may be put to a judge.
type Ask struct {
	SessionID, TurnID, UnitID string // of the earlier turn, which is judged
	Exchange                  Exchange

	at      int64  // client time of the next request (µs)
	settles int64  // log time (µs) from which on the turn has settled: a verdict would only be an amendment
	nextID  string // the turn that the next request began

	turn, next *tracked // until it is handed over
}

// Evidence is the event that a verdict becomes; nil for one that abstained. It says the same whenever it is made: its
// time is that of the request that was judged, and its id is a digest of all that it says. So a verdict that comes
// twice is a repeat, another one is another event, and none conflicts with what is in the log.
func (a *Ask) Evidence(v Verdict, version string) (*event.SessionEvent, error) {
	if v.Abstained != "" {
		return nil, nil
	}
	e := &event.SessionEvent{
		Source: Source, SessionId: a.SessionID, TurnId: a.TurnID, UnitId: a.UnitID,
		OccurredAt: timestamppb.New(time.UnixMicro(a.at)), Privacy: event.Privacy_FULL,
		Body: &event.SessionEvent_EvidenceAdded{EvidenceAdded: &event.EvidenceAdded{
			FollowUp: v.Class, Polarity: proto.Float64(v.Polarity), Confidence: proto.Float64(v.Confidence), ClassifierVersion: version,
		}},
	}
	content, err := e.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("evidence on turn %s: %w", a.TurnID, err)
	}
	digest := sha256.Sum256(content)
	e.EventId = hex.EncodeToString(digest[:16])
	return e, nil
}
