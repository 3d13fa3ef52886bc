package arrowfile

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	lines := func(body []byte) (rows []map[string]any) {
		var b bytes.Buffer
		require.NoError(t, WriteJSON(&b, body))
		for line := range strings.Lines(b.String()) {
			var row map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &row))
			rows = append(rows, row)
		}
		return rows
	}
	samples := sampleRows(11, 3)
	shard, err := WriteShard(testMeta, samples, Zstd)
	require.NoError(t, err)
	rows := lines(shard)
	require.Len(t, rows, 3)
	require.Len(t, rows[0], len(sample.Columns))
	require.Equal(t, "s-0", rows[0]["sample_id"])
	require.Len(t, rows[0]["input_ids"], samples[0].Length())
	require.Nil(t, rows[0]["policy_ordinal"])

	body, err := WriteLedger(ledgerRows(3))
	require.NoError(t, err)
	rows = lines(body)
	require.Len(t, rows, 3)
	require.Len(t, rows[0], len(ledger.Columns))
	require.Equal(t, []any{map[string]any{"name": "retention", "value": 0.0}, map[string]any{"name": "thumb", "value": nil}}, rows[0]["components"])

	require.ErrorContains(t, WriteJSON(&bytes.Buffer{}, []byte("text")), "neither a shard nor a ledger file")
}
