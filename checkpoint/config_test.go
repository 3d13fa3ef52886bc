package checkpoint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConfigSaysWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		says   string
	}{
		"a long test":         {func(c *Config) { c.Period = 4 * time.Hour }, "make the period at least 4h45m0s, or the test 45m0s shorter"},
		"evals before submit": {func(c *Config) { c.Ladder.EvalsBy = time.Minute }, "the ladder goes down: partitions named after 10m0s, submit by 1h0m0s, evaluated by 1m0s"},
		"an unknown rule":     {func(c *Config) { c.OnOpenExperiment = "kill" }, `on open experiment "kill", want wait or supersede`},
		"only a longest":      {func(c *Config) { c.MaxPeriod = time.Hour }, "the longest period (1h0m0s) counts only for cuts by rows"},
		"fewer than wanted":   {func(c *Config) { c.CutAtRows, c.MaxPeriod = 499, 9*time.Hour }, "a cut at 499 rows would be skipped, at least 500 are wanted"},
		"the longest shorter": {func(c *Config) { c.CutAtRows, c.MaxPeriod = 500, time.Hour }, "a cut by rows after 1h0m0s at the latest, but not before 5h0m0s"},
		"eight days by rows":  {func(c *Config) { c.CutAtRows, c.Period, c.MaxPeriod = 2000, 8*24*time.Hour, 14*24*time.Hour }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.Topic, cfg.Partitions, cfg.Owner = "events", 8, "me"
			c.change(&cfg)
			if c.says == "" {
				require.NoError(t, cfg.Validate())
				return
			}
			require.ErrorContains(t, cfg.Validate(), c.says)
		})
	}
}
