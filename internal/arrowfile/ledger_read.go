package arrowfile

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"millrace/schemas/ledger"
)

// readRows is the most rows that LedgerReader hands over at once: one takes about 2 KB.
const readRows = 8_192

// ReadLedger decodes a ledger file. Columns that this build doesn't know are left out, signals and nullable columns that
// the file doesn't know are null; every row has one value for each of ledger.Signals. It never panics, but takes a
// corrupt file's word for many things: compare size and SHA-256 first.
func ReadLedger(body []byte) (rows []ledger.Row, err error) {
	reader, err := OpenLedger(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	err = reader.Each(func(some []ledger.Row) error {
		rows = append(rows, some...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// Body is a ledger file as it is read: an *os.File, or a *bytes.Reader.
type Body = parquet.ReaderAtSeeker

// LedgerReader reads a ledger file by its row groups, of at most 65,536 rows in files of ours.
type LedgerReader struct {
	file  *file.Reader
	arrow *pqarrow.FileReader
	place []int // of each of ledgerColumns among the file's columns; -1: not there
}

// OpenLedger reads what a ledger file says of itself. It is as trusting as ReadLedger.
func OpenLedger(r Body) (reader *LedgerReader, err error) {
	defer recovered("read ledger", &err)
	reader, err = openLedger(r)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	return reader, nil
}

func openLedger(r Body) (*LedgerReader, error) {
	parquetReader, err := file.NewParquetReader(r)
	if err != nil {
		return nil, err
	}
	md := parquetReader.MetaData()
	if v := md.KeyValueMetadata().FindValue("millrace.schema"); v == nil || *v != ledger.SchemaVersion {
		return nil, fmt.Errorf("not a ledger file of schema version %s", ledger.SchemaVersion)
	}
	if v := md.KeyValueMetadata().FindValue("millrace.rows"); v == nil || *v != strconv.FormatInt(parquetReader.NumRows(), 10) {
		return nil, fmt.Errorf("%d rows, and its metadata says otherwise", parquetReader.NumRows())
	}
	arrowReader, err := pqarrow.NewFileReader(parquetReader, pqarrow.ArrowReadProperties{}, allocator)
	if err != nil {
		return nil, err
	}
	schema, err := arrowReader.Schema()
	if err != nil {
		return nil, err
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
			return nil, fmt.Errorf("%d columns named %s, not one", len(found), c.name)
		}
	}
	return &LedgerReader{parquetReader, arrowReader, place}, nil
}

// Each decodes the file, one row group after the other, and hands its rows over in order, at most 8,192 at once. They are
// the visitor's to keep.
func (l *LedgerReader) Each(visit func(rows []ledger.Row) error) error {
	for group := range l.groups() {
		if err := l.eachOf(group, visit); err != nil {
			return err
		}
	}
	return nil
}

func (l *LedgerReader) groups() int { return l.file.NumRowGroups() }

func (l *LedgerReader) eachOf(group int, visit func(rows []ledger.Row) error) error {
	arrays, n, err := l.checkedColumns(group)
	if err != nil {
		return err
	}
	for from := 0; from < n; from += readRows {
		rows, err := rowsOf(arrays, from, min(from+readRows, n))
		if err != nil {
			return err
		}
		if err := visit(rows); err != nil {
			return err
		}
	}
	return nil
}

func (l *LedgerReader) checkedColumns(group int) (arrays []arrow.Array, n int, err error) {
	defer recovered("read ledger", &err)
	arrays, n, err = l.columns(group)
	for i, c := range ledgerColumns {
		if err == nil && arrays[i] != nil {
			err = c.checked(arrays[i], n)
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read ledger: %w", err)
	}
	return arrays, n, nil
}

// rowsOf makes rows of columns, with one value for each of ledger.Signals.
func rowsOf(arrays []arrow.Array, from, to int) (rows []ledger.Row, err error) {
	defer recovered("read ledger", &err)
	rows = make([]ledger.Row, to-from)
	n := len(ledger.Signals)
	signals := make([]ledger.Value, len(rows)*n)
	for i := range rows {
		rows[i].Signals = signals[i*n : (i+1)*n : (i+1)*n]
	}
	for i, c := range ledgerColumns {
		if arrays[i] != nil {
			c.read(array.NewSlice(arrays[i], int64(from), int64(to)), rows)
		}
	}
	return rows, nil
}

// columns are a row group's columns in the order of ledgerColumns, nil for one that the file doesn't have, and the
// number of its rows.
func (l *LedgerReader) columns(group int) ([]arrow.Array, int, error) {
	arrays := make([]arrow.Array, len(l.place))
	for i, p := range l.place {
		if p < 0 {
			continue
		}
		var err error
		if arrays[i], err = readColumn(l.arrow, ledgerColumns[i].name, p, group); err != nil {
			return nil, 0, fmt.Errorf("row group %d, column %s: %w", group, ledgerColumns[i].name, err)
		}
	}
	return arrays, int(l.file.MetaData().RowGroup(group).NumRows()), nil
}

// eachRowGroup gives a file's columns, row group by row group, in the order of ledgerColumns; nil for a nullable column that the
// file doesn't have.
func eachRowGroup(body []byte, visit func(arrays []arrow.Array, rows int) error) error {
	reader, err := openLedger(bytes.NewReader(body))
	if err != nil {
		return err
	}
	for g := range reader.groups() {
		arrays, rows, err := reader.columns(g)
		if err != nil {
			return err
		}
		if err := visit(arrays, rows); err != nil {
			return err
		}
	}
	return nil
}
