package arrowfile

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"
)

// The levels of components in a Parquet file:
//
//	required group components (LIST) { repeated group list { optional group element {
//	    required binary name; optional double value } } }
//
// The repetition level is 0 where a row begins. The definition level is 0 for a row without components, 2
// for one that is there, and 3 for its value unless that is null; 1 would be a null component, which is never written
// (v17 makes items of lists optional whatever the schema says).
const (
	levelComponent = 2
	levelValue     = 3
)

// readComponentColumn builds the list of structs from its two leaves.
func readComponentColumn(group *file.RowGroupReader, node pqarrow.SchemaField) (arrow.Array, error) {
	if len(node.Children) != 1 || len(node.Children[0].Children) != 2 {
		return nil, errors.New("not a list of name and value")
	}
	leaves := node.Children[0].Children
	if leaves[0].Field.Name != "name" || leaves[1].Field.Name != "value" {
		return nil, fmt.Errorf("fields %s and %s, not name and value", leaves[0].Field.Name, leaves[1].Field.Name)
	}
	nameLeaf, err := group.Column(leaves[0].ColIndex)
	if err != nil {
		return nil, err
	}
	valueLeaf, err := group.Column(leaves[1].ColIndex)
	if err != nil {
		return nil, err
	}
	nameReader, isText := nameLeaf.(*file.ByteArrayColumnChunkReader)
	valueReader, isNumber := valueLeaf.(*file.Float64ColumnChunkReader)
	if !isText || !isNumber {
		return nil, errors.New("name or value of another type")
	}
	names := array.NewStringBuilder(allocator)
	nameDefined, nameRepeated, err := eachLevel(nameReader, func(v parquet.ByteArray) { names.Append(string(v)) }, levelComponent, nil)
	if err != nil {
		return nil, err
	}
	values := array.NewFloat64Builder(allocator)
	valueDefined, valueRepeated, err := eachLevel(valueReader, values.Append, levelValue, values.AppendNull)
	if err != nil {
		return nil, err
	}

	list := array.NewListBuilderWithField(allocator, arrow.ListOfNonNullable(ledgerComponentStruct).ElemField())
	items := list.ValueBuilder().(*array.StructBuilder)
	name, value := names.NewStringArray(), values.NewFloat64Array()
	if len(nameDefined) != len(valueDefined) || name.Len() != value.Len() {
		return nil, fmt.Errorf("%d names, but %d values", name.Len(), value.Len())
	}
	next := 0
	for i, defined := range nameDefined {
		if nameRepeated[i] != valueRepeated[i] || (defined >= levelComponent) != (valueDefined[i] >= levelComponent) {
			return nil, errors.New("names and values belong to different rows")
		}
		if nameRepeated[i] == 0 {
			list.Append(true)
		}
		if defined < levelComponent {
			continue
		}
		items.Append(true)
		items.FieldBuilder(0).(*array.StringBuilder).Append(name.Value(next))
		if value.IsValid(next) {
			items.FieldBuilder(1).(*array.Float64Builder).Append(value.Value(next))
		} else {
			items.FieldBuilder(1).AppendNull()
		}
		next++
	}
	return list.NewArray(), nil
}

// eachLevel reads a leaf to its end: present gets each value, null is called for each component without one.
func eachLevel[T any](leaf interface {
	HasNext() bool
	ReadBatch(size int64, values []T, defined, repeated []int16) (total int64, read int, err error)
}, present func(T), full int16, null func(),
) (defined, repeated []int16, err error) {
	const size = 4096
	values, d, r := make([]T, size), make([]int16, size), make([]int16, size)
	for leaf.HasNext() {
		total, read, err := leaf.ReadBatch(size, values, d, r)
		if err != nil {
			return nil, nil, err
		}
		if total == 0 {
			return nil, nil, errors.New("a page that ends early")
		}
		next := 0
		for _, level := range d[:total] {
			switch {
			case level >= full:
				present(values[next])
				next++
			case level >= levelComponent:
				null()
			}
		}
		if next != read {
			return nil, nil, fmt.Errorf("%d values, but the levels say %d", read, next)
		}
		defined, repeated = append(defined, d[:total]...), append(repeated, r[:total]...)
	}
	return defined, repeated, nil
}
