package reward

import (
	"math"

	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// effort is weight · min(1, C(x) / C(x_ref)), x the turn's work and x_ref the stratum's. C itself is in tokens and would
// drown everything else.
func (s *scoring) effort() ledger.Value {
	e, x := s.spec.Effort, Work(s.spec, s.Signals)
	if !x.Known || !s.spec.Has(rewardspec.EffortBlock) {
		return ledger.Value{}
	}
	v := e.Weight * min(1, effortCost(x.Number, e.K, e.Q)/effortCost(s.stratum.XRef, e.K, e.Q))
	if math.IsNaN(v) || math.IsInf(v, 0) { // of a draft whose k or q are out of range
		return ledger.Value{}
	}
	return ledger.Of(v)
}

// Work is x, the amount of work in a turn as the spec weighs it, in tokens of text to the user. Counts that are missing
// add nothing; if all are, it is null.
func Work(spec *rewardspec.Spec, signals []ledger.Value) ledger.Value {
	w := spec.Effort.Weights
	x, known := 0., false
	for _, part := range []struct {
		signal string
		weight float64
	}{
		{"effort.thinking_tokens", w.ThinkingTokens},
		{"effort.tool_argument_tokens", w.ToolArgumentTokens},
		{"effort.tool_output_tokens", w.ToolOutputTokens},
		{"effort.final_tokens", w.FinalTokens},
		{"tools.calls", w.ToolCalls},
		{"effort.steps", w.Steps},
	} {
		if i := ledger.SignalIndex[part.signal]; i < len(signals) && signals[i].Known {
			x += float64(part.weight * signals[i].Number) // rounded here, so that no platform fuses it
			known = true
		}
	}
	return ledger.Value{Number: x, Known: known}
}

// effortCost is C(x) = ((1+k·x)^(1−q) − 1) / (k·(1−q)), the concave price of Composer 2, with its limits
// ln(1+k·x)/k at q = 1 and x at k = 0. Written with log1p and expm1, it stays exact near both.
func effortCost(x, k, q float64) float64 {
	if k == 0 {
		return x
	}
	log := math.Log1p(k * x)
	if q == 1 {
		return log / k
	}
	return math.Expm1((1-q)*log) / (k * (1 - q))
}
