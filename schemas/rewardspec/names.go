package rewardspec

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schemas/ledger"
)

// known says whether an expression may refer to the name, and if not, what was probably meant.
func known(name string) error {
	if _, ok := ledger.SignalIndex[name]; ok || slices.Contains(StratumConstants, name) {
		return nil
	}
	if strings.HasPrefix(name, "stratum.") {
		return fmt.Errorf("unknown constant %s; there are %s", name, strings.Join(StratumConstants, ", "))
	}
	for _, family := range []string{"edits.retention_four_gram_", "edits.retention_no_revert_"} {
		if strings.HasPrefix(name, family) {
			return fmt.Errorf("unknown signal %s; horizons are %s", name, strings.Join(horizons(family), ", "))
		}
	}
	if near := nearest(name); near != "" {
		return fmt.Errorf("unknown signal %s; did you mean %s?", name, near)
	}
	return fmt.Errorf("unknown signal %s; docs/reward.md lists the signals", name)
}

func horizons(family string) []string {
	var list []string
	for _, d := range ledger.Signals {
		if rest, ok := strings.CutPrefix(d.Name, family); ok {
			list = append(list, strings.TrimSuffix(rest, "s"))
		}
	}
	return list
}

// nearest is the signal that differs from the name by the fewest letters, if they are few; a bare name finds its group.
func nearest(name string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, d := range ledger.Signals {
		_, bare, _ := strings.Cut(d.Name, ".")
		if bare == name {
			return d.Name
		}
		if n := editDistance(name, d.Name); n < least {
			best, least = d.Name, n
		}
	}
	return best
}

// editDistance is Levenshtein's, over bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
