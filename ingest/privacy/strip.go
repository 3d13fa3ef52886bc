package privacy

import "millrace/schemas/event"

// Strip removes from the event what its privacy level forbids and returns how many fields it removed. FULL (and
// unspecified) forbids nothing. NO_CONTENT forbids text, code, arguments and tokens; METRICS_ONLY also what
// describes the user's files and repository. Numbers, outcomes, names of tools and versions stay: the A/B test counts
// them.
func Strip(e *event.SessionEvent) int {
	switch e.Privacy {
	case event.Privacy_NO_CONTENT:
		return stripContent(e)
	case event.Privacy_METRICS_ONLY:
		return stripContent(e) + stripDescriptions(e)
	}
	return 0
}

func stripContent(e *event.SessionEvent) int {
	n := 0
	switch b := e.Body.(type) {
	case *event.SessionEvent_TurnStarted:
		n += clearText(&b.TurnStarted.Text)
	case *event.SessionEvent_StepCompleted:
		s := b.StepCompleted
		n += clearBytes(&s.PromptTokenIds) + clearBytes(&s.OutputTokenIds) + clearBytes(&s.OutputLogprobs) +
			clearBytes(&s.OutputMask) + clearText(&s.Sidecar)
	case *event.SessionEvent_ToolCalled:
		if b.ToolCalled.Raw != nil {
			b.ToolCalled.Raw = nil
			n++
		}
	case *event.SessionEvent_ToolReturned:
		n += clearText(&b.ToolReturned.Output)
	case *event.SessionEvent_EditObserved:
		if len(b.EditObserved.Hunks) > 0 {
			b.EditObserved.Hunks = nil
			n++
		}
	case *event.SessionEvent_InfrastructureReported:
		n += clearText(&b.InfrastructureReported.Detail)
	}
	return n
}

func stripDescriptions(e *event.SessionEvent) int {
	n := 0
	switch b := e.Body.(type) {
	case *event.SessionEvent_SessionStarted:
		n += clearRepository(&b.SessionStarted.Repository)
	case *event.SessionEvent_TurnStarted:
		if b.TurnStarted.Context != nil {
			n += clearRepository(&b.TurnStarted.Context.Repository)
		}
	case *event.SessionEvent_EditProposed:
		n += clearText(&b.EditProposed.FileHash) + clearText(&b.EditProposed.Language)
	}
	return n
}

func clearText(s *string) int {
	if *s == "" {
		return 0
	}
	*s = ""
	return 1
}

func clearBytes(b *[]byte) int {
	if len(*b) == 0 {
		return 0
	}
	*b = nil
	return 1
}

func clearRepository(r **event.Repository) int {
	if *r == nil {
		return 0
	}
	*r = nil
	return 1
}
