package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/checkpoint/gate"
)

// The page says what the gate found, and computes no p value of its own.
func TestTheSplitIsTheGates(t *testing.T) {
	t.Parallel()
	v := gate.Verdict{
		Units:  gate.Arms{Control: 15_000, Candidate: 15_400},
		Checks: []gate.Check{{Name: "split_telemetry", Value: .5}, {Name: "split_exposed", Value: .0123}},
	}
	p := splitOf(v)
	require.NotNil(t, p)
	require.InDelta(t, .0123, *p, 0)
	v.Units = gate.Arms{}
	require.Nil(t, splitOf(v), "nobody was exposed")
}
