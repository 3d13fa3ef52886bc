package event

import (
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// Invalid says why an event can't be taken: a reason code, the field's path in JSON names, and a sentence.
type Invalid struct {
	Reason, Field, Message string
}

// Error is the sentence with the field before it.
func (i *Invalid) Error() string {
	if i.Field == "" {
		return i.Message
	}
	return i.Field + ": " + i.Message
}

// The reason codes of Validate. They are part of the API: emitters and dead letters are sorted by them.
const (
	ReasonMissing        = "missing"         // a required field is not there
	ReasonUnknownBody    = "unknown_body"    // no body, or one that this version does not know
	ReasonInvalidText    = "invalid_text"    // not UTF-8, or a control character in an id
	ReasonTooLong        = "too_long"        // an id of more than MaxIDBytes
	ReasonOutOfRange     = "out_of_range"    // a number or a time outside its range
	ReasonNotFinite      = "not_finite"      // NaN or an infinity
	ReasonUnknownValue   = "unknown_value"   // a value that its enumeration does not have
	ReasonBadPacking     = "bad_packing"     // packed bytes that do not divide into their elements
	ReasonLengthMismatch = "length_mismatch" // arrays of one step that differ in length
	ReasonBadDocument    = "bad_document"    // a JSON document inside the event that is none
	ReasonRepeated       = "repeated"        // a name that may stand only once
)

const (
	// MaxIDBytes bounds every id and short label, in bytes of UTF-8.
	MaxIDBytes = 256
	// MaxToolNameBytes bounds a called tool's name, which is the model's own writing.
	MaxToolNameBytes = 4096
	// MaxMilliseconds bounds every duration (about 115 days), so that sums stay exact.
	MaxMilliseconds = 1e10

	year2000 = 946684800  // in seconds of Unix time
	year2100 = 4102444800 // in seconds of Unix time
)

// Validate checks an event against the schema's rules; nil means that it can be taken. It reads nothing but the event
// and does not change it; the first rule that fails is reported. An event whose content was stripped for privacy is valid.
func Validate(e *SessionEvent) *Invalid {
	if e == nil {
		return missing("", "there is no event")
	}
	for _, id := range [...]struct{ field, value string }{
		{"source", e.Source},
		{"eventId", e.EventId},
		{"sessionId", e.SessionId},
	} {
		if bad := requiredID(id.field, id.value); bad != nil {
			return bad
		}
	}
	if bad := first(label("turnId", e.TurnId), label("unitId", e.UnitId)); bad != nil {
		return bad
	}
	if e.OccurredAt == nil {
		return missing("occurredAt", "the client's clock when it happened is required")
	}
	if bad := first(
		instant("occurredAt", e.OccurredAt),
		instant("sentAt", e.SentAt),
		instant("receivedAt", e.ReceivedAt),
		enum("privacy", e.Privacy, Privacy_name),
	); bad != nil {
		return bad
	}
	switch e.Body.(type) {
	case *SessionEvent_SessionStarted, *SessionEvent_SessionEnded, *SessionEvent_Stub, nil:
	default:
		if e.TurnId == "" {
			return missing("turnId", "required on every event but sessionStarted and sessionEnded")
		}
	}
	return validateBody(e)
}

func validateBody(e *SessionEvent) *Invalid {
	switch b := e.Body.(type) {
	case *SessionEvent_SessionStarted:
		return orEmpty(b.SessionStarted, "sessionStarted", validateSessionStarted)
	case *SessionEvent_TurnStarted:
		if e.UnitId == "" {
			return missing("unitId", "required on turnStarted: the unit that an A/B test randomises")
		}
		return orEmpty(b.TurnStarted, "turnStarted", validateTurnStarted)
	case *SessionEvent_StepCompleted:
		return orEmpty(b.StepCompleted, "stepCompleted", validateStepCompleted)
	case *SessionEvent_ToolCalled:
		return orEmpty(b.ToolCalled, "toolCalled", validateToolCalled)
	case *SessionEvent_ToolReturned:
		return orEmpty(b.ToolReturned, "toolReturned", validateToolReturned)
	case *SessionEvent_EditProposed:
		return orEmpty(b.EditProposed, "editProposed", validateEditProposed)
	case *SessionEvent_EditDecided:
		return orEmpty(b.EditDecided, "editDecided", validateEditDecided)
	case *SessionEvent_EditObserved:
		if b.EditObserved == nil {
			return missing("editObserved", "the body is empty")
		}
		return validateEditObserved(b.EditObserved, e.Privacy)
	case *SessionEvent_ChecksRan:
		return orEmpty(b.ChecksRan, "checksRan", validateChecksRan)
	case *SessionEvent_FeedbackGiven:
		return orEmpty(b.FeedbackGiven, "feedbackGiven", func(f *FeedbackGiven) *Invalid {
			return within("feedbackGiven.rating", f.Rating, -1, 1)
		})
	case *SessionEvent_TurnEnded:
		return orEmpty(b.TurnEnded, "turnEnded", func(t *TurnEnded) *Invalid {
			return enum("turnEnded.reason", t.Reason, EndReason_name)
		})
	case *SessionEvent_EvidenceAdded:
		return orEmpty(b.EvidenceAdded, "evidenceAdded", validateEvidenceAdded)
	case *SessionEvent_InfrastructureReported:
		return orEmpty(b.InfrastructureReported, "infrastructureReported", validateInfrastructureReported)
	case *SessionEvent_Stub:
		return orEmpty(b.Stub, "stub", func(s *Stub) *Invalid {
			return first(requiredID("stub.reason", s.Reason), label("stub.body", s.Body))
		})
	case *SessionEvent_SessionEnded:
		return orEmpty(b.SessionEnded, "sessionEnded", func(s *SessionEnded) *Invalid {
			return label("sessionEnded.reason", s.Reason)
		})
	}
	return &Invalid{ReasonUnknownBody, "", "the event has no body, or one that this version of the schema does not know"}
}

// orEmpty guards a body against a oneof that is set to nothing, which only Go code can make.
func orEmpty[T any](body *T, field string, rules func(*T) *Invalid) *Invalid {
	if body == nil {
		return missing(field, "the body is empty")
	}
	return rules(body)
}

func missing(field, message string) *Invalid { return &Invalid{ReasonMissing, field, message} }

// first is the first of the findings that is one.
func first(findings ...*Invalid) *Invalid {
	for _, f := range findings {
		if f != nil {
			return f
		}
	}
	return nil
}

func requiredID(field, value string) *Invalid {
	if value == "" {
		return missing(field, "required")
	}
	return label(field, value)
}

// label checks an id or short label, which may be empty.
func label(field, value string) *Invalid {
	if len(value) > MaxIDBytes {
		return &Invalid{ReasonTooLong, field, fmt.Sprintf("%d bytes; at most %d", len(value), MaxIDBytes)}
	}
	return plainText(field, value)
}

// plainText is UTF-8 without control characters.
func plainText(field, value string) *Invalid {
	for i := 0; i < len(value); i++ {
		if c := value[i]; c < 0x20 || c == 0x7f {
			return &Invalid{ReasonInvalidText, field, fmt.Sprintf("control character U+%04X at byte %d", c, i)}
		}
	}
	return content(field, value)
}

// content is any UTF-8: the words of people and models, control characters included.
func content(field, value string) *Invalid {
	if !utf8.ValidString(value) {
		return &Invalid{ReasonInvalidText, field, "not UTF-8"}
	}
	return nil
}

func instant(field string, t *timestamppb.Timestamp) *Invalid {
	if t == nil {
		return nil
	}
	if t.Seconds < year2000 || t.Seconds >= year2100 {
		return &Invalid{ReasonOutOfRange, field, fmt.Sprintf("%d s of Unix time is not between the years 2000 and 2100", t.Seconds)}
	}
	if t.Nanos < 0 || t.Nanos > 999_999_999 {
		return &Invalid{ReasonOutOfRange, field, fmt.Sprintf("%d ns is not between 0 and 999999999", t.Nanos)}
	}
	return nil
}

func enum[E ~int32](field string, value E, names map[int32]string) *Invalid {
	if _, ok := names[int32(value)]; !ok {
		return &Invalid{ReasonUnknownValue, field, fmt.Sprintf("%d is not a value of this enumeration", int32(value))}
	}
	return nil
}

// chosen is an enumeration that must say something.
func chosen[E ~int32](field string, value E, names map[int32]string) *Invalid {
	if value == 0 {
		return missing(field, "required")
	}
	return enum(field, value, names)
}

func within(field string, value, low, high float64) *Invalid {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return &Invalid{ReasonNotFinite, field, "not a finite number"}
	}
	if value < low || value > high {
		return &Invalid{ReasonOutOfRange, field, fmt.Sprintf("%g is not between %g and %g", value, low, high)}
	}
	return nil
}

// withinIfSet is within for a number that may be unknown.
func withinIfSet(field string, value *float64, low, high float64) *Invalid {
	if value == nil {
		return nil
	}
	return within(field, *value, low, high)
}

func repository(field string, r *Repository) *Invalid {
	if r == nil {
		return nil
	}
	return first(
		label(field+".idHash", r.IdHash),
		label(field+".sizeClass", r.SizeClass),
		label(field+".mainLanguage", r.MainLanguage),
	)
}

func jsonObject(field, document string) *Invalid {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(document), &object); err != nil || object == nil {
		return &Invalid{ReasonBadDocument, field, "not a JSON object"}
	}
	return nil
}
