package arrowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"millrace/schemas/ledger"
	"millrace/schemas/sample"
)

// OverlayMeta is what an overlay says about itself, in the schema's metadata as millrace.*.
type OverlayMeta struct {
	RewardSpec       string // name@version
	RewardSpecDigest string
	BaselineVersion  string
}

// Overlay is the reward of one turn under another spec or baseline. The rows in the shards never change: a trainer puts it over them by session_id
// and turn_id.
type Overlay struct {
	SessionID string
	TurnID    string
	Reward    ledger.Value // null: the turn is not to be trained on under the other spec
	Advantage ledger.Value
	// What the tokens of a step bear that issued a malformed call, instead of Advantage: those whose token_advantages in the
	// shard isn't the row's advantage. A row's token_advantages are all of the old spec, so they are replaced whole.
	SpanAdvantage ledger.Value
}

var overlayColumns = []column[Overlay]{
	text("session_id", func(o *Overlay) *string { return &o.SessionID }),
	text("turn_id", func(o *Overlay) *string { return &o.TurnID }),
	optionalNumber("reward", func(o *Overlay) *ledger.Value { return &o.Reward }),
	optionalNumber("advantage", func(o *Overlay) *ledger.Value { return &o.Advantage }),
	optionalNumber("span_advantage", func(o *Overlay) *ledger.Value { return &o.SpanAdvantage }),
}

func optionalNumber(name string, field func(*Overlay) *ledger.Value) column[Overlay] {
	return number(name, true,
		func(o *Overlay) (float64, bool) { return field(o).Number, field(o).Known },
		func(o *Overlay, v float64, known bool) { *field(o) = ledger.Value{Number: v, Known: known} })
}

// OverlayWriter writes an overlay as an Arrow IPC file (zstd), some rows at a time.
type OverlayWriter struct {
	schema *arrow.Schema
	file   *ipc.FileWriter
}

// NewOverlayWriter begins a file.
func NewOverlayWriter(w io.WriteSeeker, meta OverlayMeta) (*OverlayWriter, error) {
	metadata := arrow.NewMetadata(
		[]string{"millrace.overlay", "millrace.reward_spec", "millrace.reward_spec_digest", "millrace.baseline_version"},
		[]string{sample.SchemaVersion, meta.RewardSpec, meta.RewardSpecDigest, meta.BaselineVersion})
	schema := schemaOf(overlayColumns, &metadata)
	file, err := ipc.NewFileWriter(w, ipc.WithSchema(schema), ipc.WithAllocator(allocator), ipc.WithZstd())
	if err != nil {
		return nil, fmt.Errorf("write overlay: %w", err)
	}
	return &OverlayWriter{schema, file}, nil
}

// Write adds rows. It refuses numbers that aren't finite.
func (w *OverlayWriter) Write(rows []Overlay) (err error) {
	defer recovered("write overlay", &err)
	for _, row := range rows {
		for _, v := range []ledger.Value{row.Reward, row.Advantage, row.SpanAdvantage} {
			if v.Known && (math.IsNaN(v.Number) || math.IsInf(v.Number, 0)) {
				return fmt.Errorf("write overlay: turn %s: %v is no number", row.TurnID, v.Number)
			}
		}
	}
	if err := w.file.Write(buildRecord(w.schema, overlayColumns, rows)); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	return nil
}

// Close ends the file.
func (w *OverlayWriter) Close() error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	return nil
}

// ReadOverlay reads a whole overlay.
func ReadOverlay(file []byte) (meta OverlayMeta, rows []Overlay, err error) {
	defer recovered("read overlay", &err)
	reader, err := ipc.NewFileReader(bytes.NewReader(file), ipc.WithAllocator(allocator))
	if err != nil {
		return meta, nil, fmt.Errorf("read overlay: %w", err)
	}
	defer reader.Close()
	md := reader.Schema().Metadata()
	for _, m := range []struct {
		key  string
		into *string
	}{{"millrace.reward_spec", &meta.RewardSpec}, {"millrace.reward_spec_digest", &meta.RewardSpecDigest}, {"millrace.baseline_version", &meta.BaselineVersion}} {
		i := md.FindKey(m.key)
		if i < 0 {
			return meta, nil, fmt.Errorf("read overlay: no %s in the schema's metadata", m.key)
		}
		*m.into = md.Values()[i]
	}
	place, err := places(overlayColumns, reader.Schema())
	if err != nil {
		return meta, nil, fmt.Errorf("read overlay: %w", err)
	}
	for {
		batch, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return meta, rows, nil
		}
		if err != nil {
			return meta, nil, fmt.Errorf("read overlay: %w", err)
		}
		n := len(rows)
		rows = append(rows, make([]Overlay, batch.NumRows())...)
		for i, c := range overlayColumns {
			if err := c.checked(batch.Column(place[i]), len(rows)-n); err != nil {
				return meta, nil, fmt.Errorf("read overlay: %w", err)
			}
			c.read(batch.Column(place[i]), rows[n:])
		}
	}
}
