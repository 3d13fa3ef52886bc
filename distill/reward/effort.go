package reward

import (
	"math"

	"millrace/schemas/ledger"
	"millrace/schemas/rewardspec"
)

// effort is weight · min(1, C(x) / C(x_ref)), x the weighted amount of work and x_ref the stratum's. C itself is in
// tokens and would drown everything else. Counts that are missing add nothing; if all are, the component is null.
func (s *scoring) effort() ledger.Value {
	e := s.spec.Effort
	x, known := 0., false
	for _, part := range []struct {
		signal string
		weight float64
	}{
		{"effort.thinking_tokens", e.Weights.ThinkingTokens},
		{"effort.tool_argument_tokens", e.Weights.ToolArgumentTokens},
		{"effort.tool_output_tokens", e.Weights.ToolOutputTokens},
		{"effort.final_tokens", e.Weights.FinalTokens},
		{"tools.calls", e.Weights.ToolCalls},
		{"effort.steps", e.Weights.Steps},
	} {
		if v := s.signal(part.signal); v.Known {
			x += float64(part.weight * v.Number) // rounded here, so that no platform fuses it
			known = true
		}
	}
	if !known || !s.spec.Has(rewardspec.EffortBlock) {
		return ledger.Value{}
	}
	v := e.Weight * min(1, effortCost(x, e.K, e.Q)/effortCost(s.stratum.XRef, e.K, e.Q))
	if math.IsNaN(v) || math.IsInf(v, 0) { // of a draft whose k or q are out of range
		return ledger.Value{}
	}
	return ledger.Of(v)
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
