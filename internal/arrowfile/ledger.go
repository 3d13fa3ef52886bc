package arrowfile

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"millrace/schemas/ledger"
)

const (
	// rowGroup is the most rows that are in memory as columns at once.
	rowGroup = 65_536
	// zstdRows is from where on zstd pays. v17 makes an encoder for every page, 50 ms for a file of
	// a hundred columns; a commit's file is small, and is soon compacted anyway: it takes snappy.
	zstdRows = 16_384
)

// WriteLedger encodes ledger rows, in their order, as a Parquet file (snappy, or zstd from 16,384 rows on; dictionaries on texts;
// row groups of 65,536), and reads it back before it returns. It refuses numbers that aren't finite.
func WriteLedger(rows []ledger.Row) (body []byte, err error) {
	defer recovered("write ledger", &err)
	for i := range rows {
		if err := checkLedgerRow(&rows[i]); err != nil {
			return nil, fmt.Errorf("write ledger: row %d (turn %s): %w", i, rows[i].TurnID, err)
		}
	}
	schema := schemaOf(ledgerColumns, nil)
	properties := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Snappy),
		parquet.WithDictionaryDefault(false), // on numbers it would cost more time than it saves space
		parquet.WithMaxRowGroupLength(rowGroup),
		parquet.WithAllocator(allocator),
	}
	if len(rows) >= zstdRows {
		properties = append(properties, parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1))
	}
	for _, c := range ledgerColumns {
		if c.typ.ID() == arrow.STRING {
			properties = append(properties, parquet.WithDictionaryFor(c.name, true))
		}
	}
	for _, path := range []string{"policy_versions.list.element", "components.list.element.name"} {
		properties = append(properties, parquet.WithDictionaryFor(path, true))
	}

	var sink bytes.Buffer
	writer, err := pqarrow.NewFileWriter(schema, &sink, parquet.NewWriterProperties(properties...),
		pqarrow.NewArrowWriterProperties(pqarrow.WithAllocator(allocator)))
	if err != nil {
		return nil, fmt.Errorf("write ledger: %w", err)
	}
	for _, entry := range [][2]string{{"millrace.schema", ledger.SchemaVersion}, {"millrace.rows", strconv.Itoa(len(rows))}} {
		if err := writer.AppendKeyValueMetadata(entry[0], entry[1]); err != nil {
			return nil, fmt.Errorf("write ledger: %w", err)
		}
	}
	for from := 0; from < len(rows); from += rowGroup {
		if err := writer.Write(buildRecord(schema, ledgerColumns, rows[from:min(from+rowGroup, len(rows))])); err != nil {
			return nil, fmt.Errorf("write ledger: %w", err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("write ledger: %w", err)
	}
	if err := verifyLedger(sink.Bytes(), schema, rows); err != nil {
		return nil, fmt.Errorf("write ledger: read back: %w", err)
	}
	return sink.Bytes(), nil
}

// verifyLedger compares every value of a file with what was to be written.
func verifyLedger(body []byte, schema *arrow.Schema, rows []ledger.Row) error {
	from := 0
	err := eachRowGroup(body, func(got []arrow.Array, n int) error {
		if want := min(rowGroup, len(rows)-from); n != want {
			return fmt.Errorf("a row group of %d rows, not %d", n, want)
		}
		want := buildRecord(schema, ledgerColumns, rows[from:from+n])
		for c, a := range want.Columns() {
			if !sameValues(a, got[c]) {
				return fmt.Errorf("rows %d to %d, column %s differ from what was written", from, from+n, want.ColumnName(c))
			}
		}
		from += n
		return nil
	})
	if err == nil && from != len(rows) {
		err = fmt.Errorf("%d rows of %d", from, len(rows))
	}
	return err
}

// sameValues compares two arrays; lists by their parts, as Parquet names their items otherwise.
func sameValues(a, b arrow.Array) bool {
	switch a := a.(type) {
	case *array.List:
		b := b.(*array.List)
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			from, to := a.ValueOffsets(i)
			if f, t := b.ValueOffsets(i); f != from || t != to {
				return false
			}
		}
		return sameValues(a.ListValues(), b.ListValues())
	case *array.Struct:
		b := b.(*array.Struct)
		for i := range a.NumField() {
			if !sameValues(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return a.Len() == b.Len()
	}
	return array.Equal(a, b)
}

// readColumn reads one column of one row group on this goroutine. pqarrow's ReadTable and its reader of structs start
// others, where a corrupt page's panic could not be recovered.
func readColumn(reader *pqarrow.FileReader, name string, field, group int) (arrow.Array, error) {
	node := reader.Manifest.Fields[field]
	if name == "components" {
		return readComponentColumn(reader.ParquetReader().RowGroup(group), node)
	}
	leaf := &node
	for len(leaf.Children) > 0 {
		if len(leaf.Children) != 1 {
			return nil, fmt.Errorf("%d fields where one list or value belongs", len(leaf.Children))
		}
		leaf = &leaf.Children[0]
	}
	column, err := reader.GetFieldReader(context.Background(), field, map[int]bool{leaf.ColIndex: true}, []int{group})
	if err != nil {
		return nil, err
	}
	chunks, err := reader.ReadColumn([]int{group}, column)
	if err != nil {
		return nil, err
	}
	return array.Concatenate(chunks.Chunks(), allocator)
}

func checkLedgerRow(r *ledger.Row) error {
	if len(r.Signals) > len(ledger.Signals) {
		return fmt.Errorf("%d signals; there are %d", len(r.Signals), len(ledger.Signals))
	}
	for i, v := range r.Signals {
		if v.Known && !finite(v.Number) {
			return fmt.Errorf("signal %s is %g: must be finite or null", ledger.Signals[i].Name, v.Number)
		}
	}
	for _, c := range r.Components {
		if c.Value.Known && !finite(c.Value.Number) {
			return fmt.Errorf("component %s is %g: must be finite or null", c.Name, c.Value.Number)
		}
	}
	if r.Reward.Known && !finite(r.Reward.Number) || r.Advantage.Known && !finite(r.Advantage.Number) {
		return fmt.Errorf("reward %g, advantage %g: must be finite or null", r.Reward.Number, r.Advantage.Number)
	}
	return nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
