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
	"github.com/apache/arrow/go/v17/parquet/file"
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

// ReadLedger decodes a ledger file. Columns that this build doesn't know are left out, signals that the file
// doesn't know are null; every row has one value for each of ledger.Signals. It never panics, but takes a
// corrupt file's word for many things: compare size and SHA-256 first.
func ReadLedger(body []byte) (rows []ledger.Row, err error) {
	defer recovered("read ledger", &err)
	err = eachRowGroup(body, func(arrays []arrow.Array, n int) error {
		first := len(rows)
		rows = append(rows, make([]ledger.Row, n)...)
		signals := make([]ledger.Value, n*len(ledger.Signals))
		for i := range rows[first:] {
			rows[first+i].Signals, signals = signals[:len(ledger.Signals):len(ledger.Signals)], signals[len(ledger.Signals):]
		}
		for i, c := range ledgerColumns {
			if arrays[i] == nil {
				continue
			}
			if err := c.checked(arrays[i], n); err != nil {
				return err
			}
			c.read(arrays[i], rows[first:])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return rows, nil
}

// eachRowGroup gives a file's columns, row group by row group, in the order of ledgerColumns; nil for a nullable column that the
// file doesn't have.
func eachRowGroup(body []byte, visit func(arrays []arrow.Array, rows int) error) error {
	reader, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer reader.Close()
	md := reader.MetaData()
	if v := md.KeyValueMetadata().FindValue("millrace.schema"); v == nil || *v != ledger.SchemaVersion {
		return fmt.Errorf("not a ledger file of schema version %s", ledger.SchemaVersion)
	}
	if v := md.KeyValueMetadata().FindValue("millrace.rows"); v == nil || *v != strconv.FormatInt(reader.NumRows(), 10) {
		return fmt.Errorf("%d rows, and its metadata says otherwise", reader.NumRows())
	}
	arrowReader, err := pqarrow.NewFileReader(reader, pqarrow.ArrowReadProperties{}, allocator)
	if err != nil {
		return err
	}
	schema, err := arrowReader.Schema()
	if err != nil {
		return err
	}
	place := make([]int, len(ledgerColumns))
	for i, c := range ledgerColumns {
		found := schema.FieldIndices(c.name)
		switch {
		case len(found) == 1:
			place[i] = found[0]
		case len(found) == 0 && c.nullable:
			place[i] = -1
		default:
			return fmt.Errorf("%d columns named %s, not one", len(found), c.name)
		}
	}
	for g := range reader.NumRowGroups() {
		rows := md.RowGroup(g).NumRows()
		arrays := make([]arrow.Array, len(place))
		for i, p := range place {
			if p < 0 {
				continue
			}
			if arrays[i], err = readColumn(arrowReader, ledgerColumns[i].name, p, g); err != nil {
				return fmt.Errorf("row group %d, column %s: %w", g, ledgerColumns[i].name, err)
			}
		}
		if err := visit(arrays, int(rows)); err != nil {
			return err
		}
	}
	return nil
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
