package event

import (
	"encoding/binary"
	"fmt"
	"math"
)

// logprobTolerance is how far above 0 an engine's rounding may lift the log-prob of a certain token.
const logprobTolerance = 1e-4

func validateStepCompleted(s *StepCompleted) *Invalid {
	if s.Step < 1 {
		return &Invalid{ReasonOutOfRange, "stepCompleted.step", "counts from 1 within the turn"}
	}
	if bad := first(
		requiredID("stepCompleted.policyVersion", s.PolicyVersion),
		tokenIDs("stepCompleted.promptTokenIds", s.PromptTokenIds),
		tokenIDs("stepCompleted.outputTokenIds", s.OutputTokenIds),
		withinIfSet("stepCompleted.timeToFirstTokenMs", s.TimeToFirstTokenMs, 0, MaxMilliseconds),
		withinIfSet("stepCompleted.latencyMs", s.LatencyMs, 0, MaxMilliseconds),
		label("stepCompleted.stopReason", s.StopReason),
		content("stepCompleted.sidecar", s.Sidecar),
	); bad != nil {
		return bad
	}
	if s.Step == 1 && s.PromptPrefixLen != 0 {
		return &Invalid{ReasonOutOfRange, "stepCompleted.promptPrefixLen", fmt.Sprintf("%d on the first step, which carries its whole prompt: must be 0", s.PromptPrefixLen)}
	}
	output := len(s.OutputTokenIds) / 4
	return first(
		logprobs(s.OutputLogprobs, output),
		mask(s.OutputMask, output),
		versionSpans(s.VersionSpans, output, len(s.PromptTokenIds) > 0 || output > 0),
		sampling(s.Sampling),
	)
}

func tokenIDs(field string, packed []byte) *Invalid {
	if len(packed)%4 != 0 {
		return &Invalid{ReasonBadPacking, field, fmt.Sprintf("%d bytes: int32 little-endian takes 4 each", len(packed))}
	}
	for i := 3; i < len(packed); i += 4 {
		if packed[i]&0x80 != 0 {
			return &Invalid{ReasonOutOfRange, fmt.Sprintf("%s[%d]", field, i/4), "a token id can't be negative"}
		}
	}
	return nil
}

func logprobs(packed []byte, output int) *Invalid {
	const field = "stepCompleted.outputLogprobs"
	if len(packed)%4 != 0 {
		return &Invalid{ReasonBadPacking, field, fmt.Sprintf("%d bytes: float32 little-endian takes 4 each", len(packed))}
	}
	if n := len(packed) / 4; n != output {
		return &Invalid{ReasonLengthMismatch, field, fmt.Sprintf(
			"%d log-probs for %d output tokens; where the engine reports none, leave the token ids out too: the turn is then scored, not trained on", n, output)}
	}
	for i := 0; i+4 <= len(packed); i += 4 {
		p := float64(math.Float32frombits(binary.LittleEndian.Uint32(packed[i:])))
		switch {
		case math.IsNaN(p) || math.IsInf(p, 0):
			return &Invalid{ReasonNotFinite, fmt.Sprintf("%s[%d]", field, i/4), "not a finite number"}
		case p > logprobTolerance:
			return &Invalid{ReasonOutOfRange, fmt.Sprintf("%s[%d]", field, i/4), fmt.Sprintf("%g is above 0: not a log-prob", p)}
		}
	}
	return nil
}

func mask(bits []byte, output int) *Invalid {
	const field = "stepCompleted.outputMask"
	if len(bits) != 0 && len(bits) != output {
		return &Invalid{ReasonLengthMismatch, field, fmt.Sprintf("%d bytes for %d output tokens", len(bits), output)}
	}
	for i, b := range bits {
		if b > 1 {
			return &Invalid{ReasonOutOfRange, fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("%d is neither 0 (forced) nor 1 (the policy's own)", b)}
		}
	}
	return nil
}

// versionSpans stand in order, don't overlap and lie inside the output: without output tokens there are none. Only where
// the event carries no token ids at all, as when they were stripped, the output's length is not known.
func versionSpans(spans []*VersionSpan, output int, lengthKnown bool) *Invalid {
	end := uint32(0)
	for i, s := range spans {
		field := fmt.Sprintf("stepCompleted.versionSpans[%d]", i)
		if bad := requiredID(field+".version", s.GetVersion()); bad != nil {
			return bad
		}
		switch {
		case s.Start < end:
			return &Invalid{ReasonOutOfRange, field + ".start", fmt.Sprintf("%d lies before the end %d of the span before", s.Start, end)}
		case s.End <= s.Start:
			return &Invalid{ReasonOutOfRange, field + ".end", fmt.Sprintf("%d is not after the start %d", s.End, s.Start)}
		case lengthKnown && int64(s.End) > int64(output):
			return &Invalid{ReasonOutOfRange, field + ".end", fmt.Sprintf("%d lies outside an output of %d tokens", s.End, output)}
		}
		end = s.End
	}
	return nil
}

func sampling(s *Sampling) *Invalid {
	if s == nil {
		return nil
	}
	if s.TopK < -1 {
		return &Invalid{ReasonOutOfRange, "stepCompleted.sampling.topK", fmt.Sprintf("%d; -1 and 0 mean all tokens", s.TopK)}
	}
	return first(
		within("stepCompleted.sampling.temperature", float64(s.Temperature), 0, 100),
		within("stepCompleted.sampling.topP", float64(s.TopP), 0, 1),
		label("stepCompleted.sampling.logprobsMode", s.LogprobsMode),
	)
}
