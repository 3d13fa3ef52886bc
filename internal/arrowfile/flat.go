package arrowfile

import "encoding/binary"

// flatTable is a table of a flatbuffer, read with every bound checked: a place outside the bytes panics, and the reader that called recovers. A
// zero flatTable is an absent one; all its fields are absent.
type flatTable struct {
	bytes []byte
	at    int
}

func flatRoot(b []byte) flatTable {
	return flatTable{b, int(binary.LittleEndian.Uint32(b))}
}

// field is the place of a field's value, 0 if it is absent.
func (t flatTable) field(slot int) int {
	if t.bytes == nil {
		return 0
	}
	vtable := t.at - int(int32(binary.LittleEndian.Uint32(t.bytes[t.at:])))
	entry := 4 + 2*slot
	if entry+2 > int(binary.LittleEndian.Uint16(t.bytes[vtable:])) {
		return 0
	}
	offset := int(binary.LittleEndian.Uint16(t.bytes[vtable+entry:]))
	if offset == 0 {
		return 0
	}
	return t.at + offset
}

func (t flatTable) byte(slot int) byte {
	if p := t.field(slot); p > 0 {
		return t.bytes[p]
	}
	return 0
}

func (t flatTable) int64(slot int) int64 {
	if p := t.field(slot); p > 0 {
		return int64(binary.LittleEndian.Uint64(t.bytes[p:]))
	}
	return 0
}

func (t flatTable) table(slot int) flatTable {
	if p := t.field(slot); p > 0 {
		return flatTable{t.bytes, p + int(binary.LittleEndian.Uint32(t.bytes[p:]))}
	}
	return flatTable{}
}

// flatVector is a vector whose items all lie inside the bytes.
type flatVector struct {
	bytes         []byte
	at            int
	length, width int
}

func (t flatTable) vector(slot, width int) flatVector {
	p := t.field(slot)
	if p == 0 {
		return flatVector{}
	}
	p += int(binary.LittleEndian.Uint32(t.bytes[p:]))
	length := int(binary.LittleEndian.Uint32(t.bytes[p:]))
	_ = t.bytes[p+4 : p+4+length*width]
	return flatVector{t.bytes, p + 4, length, width}
}

func (v flatVector) int64(i, offset int) int64 {
	return int64(binary.LittleEndian.Uint64(v.bytes[v.at+i*v.width+offset:]))
}

func (v flatVector) table(i int) flatTable {
	p := v.at + i*v.width
	return flatTable{v.bytes, p + int(binary.LittleEndian.Uint32(v.bytes[p:]))}
}
