package event

import "fmt"

func validateSessionStarted(s *SessionStarted) *Invalid {
	if bad := first(
		label("sessionStarted.client", s.Client),
		label("sessionStarted.clientVersion", s.ClientVersion),
		label("sessionStarted.harnessVersion", s.HarnessVersion),
		label("sessionStarted.toolSchemaDigest", s.ToolSchemaDigest),
		repository("sessionStarted.repository", s.Repository),
		enum("sessionStarted.origin", s.Origin, Origin_name),
	); bad != nil {
		return bad
	}
	seen := make(map[string]bool, len(s.Tools))
	for i, t := range s.Tools {
		field := fmt.Sprintf("sessionStarted.tools[%d]", i)
		if bad := first(
			requiredID(field+".name", t.GetName()),
			enum(field+".kind", t.GetKind(), ToolKind_name),
			jsonObject(field+".jsonSchema", t.GetJsonSchema()),
		); bad != nil {
			return bad
		}
		if seen[t.Name] {
			return &Invalid{ReasonRepeated, field + ".name", fmt.Sprintf("a tool %q stands before it", t.Name)}
		}
		seen[t.Name] = true
	}
	return nil
}

func validateTurnStarted(t *TurnStarted) *Invalid {
	if bad := first(
		enum("turnStarted.intent", t.Intent, Intent_name),
		enum("turnStarted.relation", t.Relation, Relation_name),
		content("turnStarted.text", t.Text),
	); bad != nil {
		return bad
	}
	c := t.Context
	if c == nil {
		return missing("turnStarted.context", "required: a turn is scored by what it carries itself")
	}
	const field = "turnStarted.context"
	if bad := first(
		label(field+".harnessVersion", c.HarnessVersion),
		label(field+".toolSchemaDigest", c.ToolSchemaDigest),
		label(field+".experiment", c.Experiment),
		repository(field+".repository", c.Repository),
		enum(field+".origin", c.Origin, Origin_name),
		label(field+".tokenizerDigest", c.TokenizerDigest),
		label(field+".chatTemplateDigest", c.ChatTemplateDigest),
		label(field+".groupId", c.GroupId),
	); bad != nil {
		return bad
	}
	switch c.Arm {
	case "":
		if c.Experiment != "" {
			return missing(field+".arm", "an experiment without the arm that was applied")
		}
	case "control", "candidate":
		if c.Experiment == "" {
			return missing(field+".experiment", "an arm without its experiment")
		}
	default:
		return &Invalid{ReasonUnknownValue, field + ".arm", `must be "control", "candidate" or empty`}
	}
	if c.GroupSize > 0 && c.GroupIndex >= c.GroupSize {
		return &Invalid{ReasonOutOfRange, field + ".groupIndex", fmt.Sprintf("%d of a group of %d; counted from 0", c.GroupIndex, c.GroupSize)}
	}
	return nil
}

func validateToolCalled(t *ToolCalled) *Invalid {
	if t.Tool == "" {
		return missing("toolCalled.tool", "required: the name as the model wrote it")
	}
	if len(t.Tool) > MaxToolNameBytes {
		return &Invalid{ReasonTooLong, "toolCalled.tool", fmt.Sprintf("%d bytes; at most %d", len(t.Tool), MaxToolNameBytes)}
	}
	if bad := first(
		requiredID("toolCalled.callId", t.CallId),
		content("toolCalled.tool", t.Tool),
		enum("toolCalled.kind", t.Kind, ToolKind_name),
		label("toolCalled.parallelGroup", t.ParallelGroup),
	); bad != nil {
		return bad
	}
	if t.HarnessValidation != nil {
		if bad := enum("toolCalled.harnessValidation", *t.HarnessValidation, ToolOutcome_name); bad != nil {
			return bad
		}
	}
	if content("", t.GetArguments()) != nil {
		return &Invalid{ReasonInvalidText, "toolCalled.arguments", "not UTF-8: send such arguments as argumentsBytes"}
	}
	return nil
}

func validateToolReturned(t *ToolReturned) *Invalid {
	return first(
		requiredID("toolReturned.callId", t.CallId),
		chosen("toolReturned.outcome", t.Outcome, ToolOutcome_name),
		withinIfSet("toolReturned.durationMs", t.DurationMs, 0, MaxMilliseconds),
		content("toolReturned.output", t.Output),
	)
}

func validateEditProposed(e *EditProposed) *Invalid {
	return first(
		requiredID("editProposed.editId", e.EditId),
		label("editProposed.callId", e.CallId),
		label("editProposed.fileHash", e.FileHash),
		label("editProposed.language", e.Language),
	)
}

func validateEditDecided(e *EditDecided) *Invalid {
	return first(
		requiredID("editDecided.editId", e.EditId),
		chosen("editDecided.decision", e.Decision, Decision_name),
		enum("editDecided.source", e.Source, DecisionSource_name),
	)
}

func validateEditObserved(e *EditObserved, privacy Privacy) *Invalid {
	if bad := first(
		requiredID("editObserved.editId", e.EditId),
		within("editObserved.secondsSinceAcceptance", e.SecondsSinceAcceptance, 0, MaxMilliseconds/1000),
		withinIfSet("editObserved.fourGram", e.FourGram, 0, 1),
		withinIfSet("editObserved.noRevert", e.NoRevert, 0, 1),
		enum("editObserved.ended", e.Ended, ObservationEnd_name),
	); bad != nil {
		return bad
	}
	for i, h := range e.Hunks {
		field := fmt.Sprintf("editObserved.hunks[%d]", i)
		if h.GetBefore() == "" && h.GetAi() == "" {
			return missing(field, "a hunk changes something: before and ai can't both be empty")
		}
		if bad := first(content(field+".before", h.Before), content(field+".ai", h.Ai), content(field+".now", h.Now)); bad != nil {
			return bad
		}
	}
	// Where content may travel, an observation must say something; without it the hunks were stripped.
	stripped := privacy == Privacy_NO_CONTENT || privacy == Privacy_METRICS_ONLY
	if !stripped && e.FourGram == nil && e.NoRevert == nil && len(e.Hunks) == 0 && e.Ended == 0 {
		return missing("editObserved", "needs fourGram, noRevert or hunks, or why the observation ended")
	}
	return nil
}

func validateChecksRan(c *ChecksRan) *Invalid {
	return first(
		chosen("checksRan.kind", c.Kind, CheckKind_name),
		label("checksRan.callId", c.CallId),
	)
}

func validateEvidenceAdded(e *EvidenceAdded) *Invalid {
	if e.FollowUp == 0 && e.Polarity == nil {
		return missing("evidenceAdded.followUp", "evidence needs a follow-up class or a polarity")
	}
	return first(
		enum("evidenceAdded.followUp", e.FollowUp, FollowUpClass_name),
		withinIfSet("evidenceAdded.polarity", e.Polarity, -1, 1),
		withinIfSet("evidenceAdded.confidence", e.Confidence, 0, 1),
		label("evidenceAdded.classifierVersion", e.ClassifierVersion),
	)
}

func validateInfrastructureReported(i *InfrastructureReported) *Invalid {
	return first(
		chosen("infrastructureReported.status", i.Status, InfrastructureStatus_name),
		label("infrastructureReported.requestId", i.RequestId),
		content("infrastructureReported.detail", i.Detail),
	)
}
