package arrowfile

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// column ties one column to a field of a row, in both directions.
type column[R any] struct {
	name     string
	typ      arrow.DataType
	nullable bool
	build    func(rows []R) arrow.Array
	read     func(a arrow.Array, rows []R)
}

var allocator = memory.NewGoAllocator()

func schemaOf[R any](columns []column[R], meta *arrow.Metadata) *arrow.Schema {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.typ, Nullable: c.nullable}
	}
	return arrow.NewSchema(fields, meta)
}

func buildRecord[R any](schema *arrow.Schema, columns []column[R], rows []R) arrow.Record {
	arrays := make([]arrow.Array, len(columns))
	for i, c := range columns {
		arrays[i] = c.build(rows)
	}
	return array.NewRecord(schema, arrays, int64(len(rows)))
}

// checked refuses an array of another type, length or nullability than its column's.
func (c column[R]) checked(a arrow.Array, rows int) error {
	if !sameType(a.DataType(), c.typ) {
		return fmt.Errorf("column %s is %s, not %s", c.name, a.DataType(), c.typ)
	}
	if a.Len() != rows {
		return fmt.Errorf("column %s has %d rows, not %d", c.name, a.Len(), rows)
	}
	if !c.nullable && a.NullN() > 0 {
		return fmt.Errorf("column %s has %d nulls, and must have none", c.name, a.NullN())
	}
	return nil
}

// sameType compares types but not the names and nullability of list items, which Parquet renames.
func sameType(a, b arrow.DataType) bool {
	if a.ID() != b.ID() {
		return false
	}
	switch a := a.(type) {
	case *arrow.ListType:
		return sameType(a.Elem(), b.(*arrow.ListType).Elem())
	case *arrow.StructType:
		b := b.(*arrow.StructType)
		if a.NumFields() != b.NumFields() {
			return false
		}
		for i, f := range a.Fields() {
			if f.Name != b.Field(i).Name || !sameType(f.Type, b.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return arrow.TypeEqual(a, b)
}

func text[R any](name string, field func(*R) *string) column[R] {
	return textColumn(name, false, field)
}

// optionalText is null for the empty string.
func optionalText[R any](name string, field func(*R) *string) column[R] {
	return textColumn(name, true, field)
}

func textColumn[R any](name string, nullable bool, field func(*R) *string) column[R] {
	return column[R]{
		name: name, typ: arrow.BinaryTypes.String, nullable: nullable,
		build: func(rows []R) arrow.Array {
			b := array.NewStringBuilder(allocator)
			b.Reserve(len(rows))
			for i := range rows {
				if s := *field(&rows[i]); nullable && s == "" {
					b.AppendNull()
				} else {
					b.Append(s)
				}
			}
			return b.NewArray()
		},
		read: func(a arrow.Array, rows []R) {
			values := a.(*array.String)
			for i := range rows {
				if values.IsValid(i) {
					*field(&rows[i]) = values.Value(i)
				}
			}
		},
	}
}

// number is a column of numbers; where known says false it is null.
func number[R any, T int32 | int64 | float64](name string, nullable bool, get func(*R) (v T, known bool), set func(r *R, v T, known bool)) column[R] {
	c := column[R]{name: name, nullable: nullable}
	var zero T
	switch any(zero).(type) {
	case int32:
		c.typ = arrow.PrimitiveTypes.Int32
	case int64:
		c.typ = arrow.PrimitiveTypes.Int64
	default:
		c.typ = arrow.PrimitiveTypes.Float64
	}
	c.build = func(rows []R) arrow.Array {
		values, known := make([]T, len(rows)), make([]bool, len(rows))
		for i := range rows {
			values[i], known[i] = get(&rows[i])
		}
		b := array.NewBuilder(allocator, c.typ)
		switch v := any(values).(type) {
		case []int32:
			b.(*array.Int32Builder).AppendValues(v, known)
		case []int64:
			b.(*array.Int64Builder).AppendValues(v, known)
		case []float64:
			b.(*array.Float64Builder).AppendValues(v, known)
		}
		return b.NewArray()
	}
	c.read = func(a arrow.Array, rows []R) {
		var values []T
		switch a := a.(type) {
		case *array.Int32:
			values = any(a.Int32Values()).([]T)
		case *array.Int64:
			values = any(a.Int64Values()).([]T)
		case *array.Float64:
			values = any(a.Float64Values()).([]T)
		}
		for i := range rows {
			if a.IsValid(i) {
				set(&rows[i], values[i], true)
			} else {
				set(&rows[i], 0, false)
			}
		}
	}
	return c
}

// plain is a column of numbers that are always there.
func plain[R any, T int32 | int64 | float64](name string, field func(*R) *T) column[R] {
	return number(name, false,
		func(r *R) (T, bool) { return *field(r), true },
		func(r *R, v T, _ bool) { *field(r) = v })
}

// flag is a column of yes and no; where known says false it is null, and read as no.
func flag[R any](name string, known func(*R) bool, field func(*R) *bool) column[R] {
	return column[R]{
		name: name, typ: arrow.FixedWidthTypes.Boolean, nullable: true,
		build: func(rows []R) arrow.Array {
			b := array.NewBooleanBuilder(allocator)
			b.Reserve(len(rows))
			for i := range rows {
				if known(&rows[i]) {
					b.Append(*field(&rows[i]))
				} else {
					b.AppendNull()
				}
			}
			return b.NewArray()
		},
		read: func(a arrow.Array, rows []R) {
			values := a.(*array.Boolean)
			for i := range rows {
				*field(&rows[i]) = values.IsValid(i) && values.Value(i)
			}
		},
	}
}

// instant is a point in time in microseconds; if nullable, the zero time is null.
func instant[R any](name string, nullable bool, field func(*R) *time.Time) column[R] {
	typ := &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	return column[R]{
		name: name, typ: typ, nullable: nullable,
		build: func(rows []R) arrow.Array {
			b := array.NewTimestampBuilder(allocator, typ)
			b.Reserve(len(rows))
			for i := range rows {
				if t := *field(&rows[i]); nullable && t.IsZero() {
					b.AppendNull()
				} else {
					b.Append(arrow.Timestamp(t.UnixMicro()))
				}
			}
			return b.NewArray()
		},
		read: func(a arrow.Array, rows []R) {
			values := a.(*array.Timestamp)
			for i := range rows {
				if values.IsValid(i) {
					*field(&rows[i]) = time.UnixMicro(int64(values.Value(i))).UTC()
				}
			}
		},
	}
}

// packed is a list of fixed-width numbers whose bytes are already as Arrow wants them: they are copied once, row by row,
// and nothing is done per token. If nullable, nil is null.
func packed[R any](name string, element arrow.FixedWidthDataType, nullable bool, get func(*R) []byte, set func(*R, []byte)) column[R] {
	width := element.Bytes()
	typ := arrow.ListOfNonNullable(element)
	return column[R]{
		name: name, typ: typ, nullable: nullable,
		build: func(rows []R) arrow.Array {
			size := 0
			for i := range rows {
				size += len(get(&rows[i]))
			}
			values := make([]byte, 0, size)
			offsets := make([]byte, 0, 4*(len(rows)+1))
			valid := make([]byte, (len(rows)+7)/8)
			nulls := 0
			offsets = binary.LittleEndian.AppendUint32(offsets, 0)
			for i := range rows {
				v := get(&rows[i])
				values = append(values, v...)
				offsets = binary.LittleEndian.AppendUint32(offsets, uint32(len(values)/width))
				if nullable && v == nil {
					nulls++
				} else {
					valid[i/8] |= 1 << (i % 8)
				}
			}
			var validity *memory.Buffer
			if nulls > 0 {
				validity = memory.NewBufferBytes(valid)
			}
			items := array.NewData(element, len(values)/width, []*memory.Buffer{nil, memory.NewBufferBytes(values)}, nil, 0, 0)
			return array.NewListData(array.NewData(typ, len(rows),
				[]*memory.Buffer{validity, memory.NewBufferBytes(offsets)}, []arrow.ArrayData{items}, nulls, 0))
		},
		read: func(a arrow.Array, rows []R) {
			list := a.(*array.List)
			items := list.ListValues().Data()
			var values []byte
			if b := items.Buffers()[1]; b != nil {
				values = b.Bytes()
			}
			for i := range rows {
				if list.IsNull(i) {
					set(&rows[i], nil)
					continue
				}
				from, to := list.ValueOffsets(i)
				from, to = from+int64(items.Offset()), to+int64(items.Offset())
				set(&rows[i], values[int(from)*width:int(to)*width:int(to)*width])
			}
		},
	}
}

// floatBytes and bytesFloat see the same memory as numbers and as bytes.
func floatBytes(v []float32) []byte {
	if v == nil {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

func bytesFloat(b []byte) []float32 {
	if b == nil {
		return nil
	}
	v := make([]float32, len(b)/4) // a copy: the bytes of a file needn't be aligned
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// nested is a list of structs (or of strings), appended and read item by item.
func nested[R any](name string, element arrow.DataType, length func(*R) int, appendItem func(b array.Builder, r *R, i int), read func(items arrow.Array, r *R, from, to int)) column[R] {
	typ := arrow.ListOfNonNullable(element)
	return column[R]{
		name: name, typ: typ,
		build: func(rows []R) arrow.Array {
			b := array.NewListBuilderWithField(allocator, typ.ElemField())
			for i := range rows {
				b.Append(true)
				for j := range length(&rows[i]) {
					appendItem(b.ValueBuilder(), &rows[i], j)
				}
			}
			return b.NewArray()
		},
		read: func(a arrow.Array, rows []R) {
			list := a.(*array.List)
			items := list.ListValues()
			for i := range rows {
				from, to := list.ValueOffsets(i)
				if from < 0 || from > to || to > int64(items.Len()) {
					panic(fmt.Sprintf("column %s, row %d: items %d to %d of %d", name, i, from, to, items.Len()))
				}
				if from < to {
					read(items, &rows[i], int(from), int(to))
				}
			}
		},
	}
}

func required(name string, typ arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: typ}
}
