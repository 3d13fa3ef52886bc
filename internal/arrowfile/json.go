package arrowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// WriteJSON prints the rows of a shard or of a ledger file, one JSON object a line, with the names of the columns. It is for looking
// at them: numbers are printed in the shortest form that reads back.
func WriteJSON(w io.Writer, body []byte) (err error) {
	defer recovered("print rows", &err)
	if bytes.HasPrefix(body, []byte("PAR1")) {
		schema := schemaOf(ledgerColumns, nil)
		return eachRowGroup(body, func(arrays []arrow.Array, rows int) error {
			for i, a := range arrays {
				if a == nil {
					arrays[i] = array.MakeArrayOfNull(allocator, ledgerColumns[i].typ, rows)
				} else if err := ledgerColumns[i].checked(a, rows); err != nil {
					return err
				}
			}
			fields := schema.Fields()
			for i := range fields {
				fields[i].Type = arrays[i].DataType()
			}
			return array.RecordToJSON(array.NewRecord(arrow.NewSchema(fields, nil), arrays, int64(rows)), w)
		})
	}
	reader, err := openShard(body)
	if err != nil {
		return fmt.Errorf("neither a shard nor a ledger file: %w", err)
	}
	for {
		batch, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := array.RecordToJSON(batch, w); err != nil {
			return err
		}
	}
}
