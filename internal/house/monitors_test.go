package house

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rewards are the packages that make the reward: what they can't see, no spec can pay for.
var rewards = []string{
	"schemas/rewardspec", "distill/signal", "distill/reward", "distill/conclude", "distill/baseline", "distill/engine", "distill/replay",
}

// watchers are the folders, anywhere in the module, that watch the policy from outside: what they find decides about a
// release, and is worth nothing once the policy is trained on it.
var watchers = []string{"checkpoint", "gate", "monitor", "monitors", "holdback", "evals"}

// fed says which packages of the reward import a watcher, directly or through others of the module.
func fed(pkgs []pkg) []string {
	byPath := map[string]pkg{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
	}
	found := map[string]bool{}
	for _, r := range rewards {
		if _, ok := byPath[module+"/"+r]; !ok {
			found[fmt.Sprintf("%s makes the reward, and isn't there", r)] = true
		}
		for at, way := range reach(byPath, module+"/"+r) {
			for element := range strings.SplitSeq(at, "/") {
				if slices.Contains(watchers, element) {
					found[fmt.Sprintf("monitors never feed the reward, but %s", way)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestMonitorsNeverFeedTheReward(t *testing.T) {
	t.Parallel()
	for _, sentence := range fed(packages(t)) {
		t.Error(sentence)
	}
}

// A watcher in the reward, at any distance and in whatever room it stands, turns the test red.
func TestAMonitorInTheRewardIsFound(t *testing.T) {
	t.Parallel()
	module := func(imports map[string][]string) []pkg {
		var pkgs []pkg
		for _, r := range rewards {
			if _, ok := imports[r]; !ok {
				pkgs = append(pkgs, pkg{ImportPath: module + "/" + r})
			}
		}
		for _, from := range slices.Sorted(maps.Keys(imports)) {
			p := pkg{ImportPath: module + "/" + from}
			for _, to := range imports[from] {
				p.Imports = append(p.Imports, module+"/"+to)
			}
			pkgs = append(pkgs, p)
		}
		return pkgs
	}
	for name, c := range map[string]struct {
		imports map[string][]string
		wrong   int
	}{
		"none":                            {nil, 0},
		"the gate":                        {map[string][]string{"distill/reward": {"checkpoint/gate"}}, 1},
		"a monitor among the signals":     {map[string][]string{"distill/signal": {"distill/monitor"}}, 1},
		"a monitor's schema in the spec":  {map[string][]string{"schemas/rewardspec": {"schemas/monitor"}}, 1},
		"through another":                 {map[string][]string{"distill/conclude": {"internal/x"}, "internal/x": {"internal/monitors/ngram"}}, 1},
		"in every package that builds on": {map[string][]string{"distill/engine": {"distill/reward"}, "distill/reward": {"checkpoint"}}, 2},
		"a monitor reads the reward":      {map[string][]string{"checkpoint/monitor": {"distill/reward"}}, 0},
		"a name that only begins alike":   {map[string][]string{"distill/reward": {"internal/monitoring"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, fed(module(c.imports)), c.wrong)
		})
	}
	require.Len(t, fed(module(nil)[1:]), 1, "a package that makes the reward is missing")
}
