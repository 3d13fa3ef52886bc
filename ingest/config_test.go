package ingest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/ingest"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	require.NoError(t, ingest.Config{}.Validate())
	for name, cfg := range map[string]ingest.Config{
		"negative":              {Limits: ingest.Limits{Items: -1}},
		"too large for the log": {Limits: ingest.Limits{ItemBytes: 20 << 20}},
		"short key":             {UnitKey: []byte("short")},
		"little memory":         {MemoryBytes: 1},
		"rate":                  {RatePerToken: -1},
		"timeout":               {WriteTimeout: -1},
	} {
		require.Error(t, cfg.Validate(), name)
	}
	_, err := ingest.New(ingest.Config{}, ingest.Deps{})
	require.ErrorContains(t, err, "no log")
}
