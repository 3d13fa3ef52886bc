package arrowfile

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
)

func TestOverlay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.arrow")
	file, err := os.Create(path)
	require.NoError(t, err)
	meta := OverlayMeta{RewardSpec: "composer@2", RewardSpecDigest: "abc", BaselineVersion: "b-1"}
	w, err := NewOverlayWriter(file, meta)
	require.NoError(t, err)
	rows := []Overlay{
		{SessionID: "s", TurnID: "1", Reward: ledger.Of(-.25), Advantage: ledger.Of(.125)},
		{SessionID: "s", TurnID: "2"},
		{SessionID: "é", TurnID: "3", Reward: ledger.Of(0), Advantage: ledger.Of(0)},
	}
	require.NoError(t, w.Write(rows[:2]))
	require.ErrorContains(t, w.Write([]Overlay{{TurnID: "x", Reward: ledger.Of(math.NaN())}}), "turn x")
	require.NoError(t, w.Write(rows[2:]))
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())

	body, err := os.ReadFile(path)
	require.NoError(t, err)
	gotMeta, got, err := ReadOverlay(body)
	require.NoError(t, err)
	require.Equal(t, meta, gotMeta)
	require.Equal(t, rows, got)
	for _, n := range []int{0, 8, len(body) / 2, len(body) - 1} {
		_, _, err := ReadOverlay(body[:n])
		require.Error(t, err, "cut off at %d", n)
	}
	_, _, err = ReadOverlay(bytes.Repeat([]byte{7}, 400))
	require.Error(t, err)
}
