package unithash

// Range is the half-open share [From, To) of the places that one variation serves.
type Range struct{ From, To float64 }

// weightSlack is how far the weights' sum may lie from 1 before they are taken for a mistake.
const weightSlack = .01

// Ranges divides the places among the variations: variation i begins where the weights before it end and takes
// its weight times the coverage, so that raising the coverage only adds units and moves none. Coverage is
// clamped to 0 … 1; weights that are missing, of the wrong number or don't add up to 1 (± 0.01) count as equal.
func Ranges(variations int, coverage float64, weights []float64) []Range {
	coverage = min(max(coverage, 0), 1)
	var sum float64
	for _, w := range weights {
		sum += w
	}
	equal := len(weights) != variations || sum < 1-weightSlack || sum > 1+weightSlack
	ranges := make([]Range, variations)
	var from float64
	for i := range ranges {
		weight := 1 / float64(variations)
		if !equal {
			weight = weights[i]
		}
		ranges[i] = Range{From: from, To: from + coverage*weight}
		from += weight
	}
	return ranges
}

// Choose is the variation whose range holds the bucket, −1 if none does: the unit is outside the coverage.
func Choose(bucket int, ranges []Range) int { return choose(float64(bucket)/Buckets, ranges) }

func choose(place float64, ranges []Range) int {
	for i, r := range ranges {
		if r.From <= place && place < r.To {
			return i
		}
	}
	return -1
}
