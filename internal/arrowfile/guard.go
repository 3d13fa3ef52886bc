package arrowfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

const (
	magic       = "ARROW1"
	streamStart = 8               // bytes before the stream: magic and padding
	maxBuffer   = int64(1) << 28  // decoded bytes of one buffer; the writer ends a batch far below
	maxMeta     = int64(16) << 20 // bytes of one message's metadata
)

var endOfStream = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

// messages hands the messages of a shard to Arrow's reader, none of which may say more than its bytes can hold. It takes the place of the
// reader's own framing, which believes every length.
type messages struct {
	rest  []byte // of the stream: what hasn't been read yet, up to the footer
	first bool
	last  *ipc.Message
}

// newMessages finds the stream between the magic at the start and the footer at the end.
func newMessages(file []byte) (*messages, error) {
	const tail = 4 + len(magic)
	if len(file) < streamStart+len(endOfStream)+tail || string(file[:len(magic)]) != magic || string(file[len(file)-len(magic):]) != magic {
		return nil, fmt.Errorf("%d bytes are no whole Arrow file", len(file))
	}
	footer := int64(binary.LittleEndian.Uint32(file[len(file)-tail:]))
	end := int64(len(file)-tail) - footer
	if end < int64(streamStart+len(endOfStream)) || !bytes.Equal(file[end-int64(len(endOfStream)):end], endOfStream) {
		return nil, errors.New("the stream does not end where the footer begins")
	}
	return &messages{rest: file[streamStart:end], first: true}, nil
}

// Message is the next message; io.EOF at the end-of-stream marker, which must be the last thing.
func (m *messages) Message() (*ipc.Message, error) {
	head, err := m.take(8)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(head, endOfStream) {
		if len(m.rest) > 0 {
			return nil, fmt.Errorf("the stream ends %d bytes before the footer", len(m.rest))
		}
		return nil, io.EOF
	}
	if !bytes.Equal(head[:4], endOfStream[:4]) {
		return nil, errors.New("no message where one should begin")
	}
	length := int64(binary.LittleEndian.Uint32(head[4:]))
	if length > maxMeta {
		return nil, fmt.Errorf("a message's metadata claims %d bytes", length)
	}
	meta, err := m.take(length)
	if err != nil {
		return nil, err
	}
	root := flatRoot(meta)
	body, err := m.take(root.int64(messageBodyLength))
	if err != nil {
		return nil, err
	}
	kind, header := root.byte(messageHeaderType), root.table(messageHeader)
	switch {
	case kind == headerSchema && m.first:
		err = checkSchema(header, 0)
	case kind == headerBatch && !m.first:
		err = checkBatch(header, body)
	default:
		err = fmt.Errorf("a message of kind %d, where none belongs", kind)
	}
	if err != nil {
		return nil, err
	}
	m.first = false
	m.last = ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body))
	return m.last, nil
}

// Release and Retain are the reader's; the bytes belong to the garbage collector.
func (m *messages) Release() {}
func (m *messages) Retain()  {}

func (m *messages) take(n int64) ([]byte, error) {
	if n < 0 || n > int64(len(m.rest)) {
		return nil, fmt.Errorf("a message claims %d bytes, and %d are left", n, len(m.rest))
	}
	part := m.rest[:n:n]
	m.rest = m.rest[n:]
	return part, nil
}

// The places of fields in Arrow's flatbuffers tables (format/Message.fbs, format/Schema.fbs).
const (
	messageHeaderType = 1
	messageHeader     = 2
	messageBodyLength = 3
	headerSchema      = 1
	headerBatch       = 3
	schemaFields      = 1
	schemaMetadata    = 2
	fieldChildren     = 5
	fieldMetadata     = 6
	batchLength       = 0
	batchNodes        = 1
	batchBuffers      = 2
	batchCompression  = 3
	batchVariadic     = 4
)

func checkSchema(schema flatTable, depth int) error {
	fields, metadata := schemaFields, schemaMetadata
	if depth > 0 {
		fields, metadata = fieldChildren, fieldMetadata
	}
	if depth > 16 {
		return errors.New("the schema is nested too deeply")
	}
	schema.vector(metadata, 4)
	v := schema.vector(fields, 4)
	for i := range v.length {
		if err := checkSchema(v.table(i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkBatch refuses buffers that reach beyond the body or claim to decompress to more than any batch holds, and more
// rows than all its bytes could carry.
func checkBatch(batch flatTable, body []byte) error {
	batch.vector(batchNodes, 16)
	batch.vector(batchVariadic, 8)
	compressed := batch.table(batchCompression).bytes != nil
	decoded := int64(0)
	buffers := batch.vector(batchBuffers, 16)
	for i := range buffers.length {
		offset, length := buffers.int64(i, 0), buffers.int64(i, 8)
		if offset < 0 || length < 0 || offset > int64(len(body)) || length > int64(len(body))-offset {
			return fmt.Errorf("buffer %d reaches beyond its message", i)
		}
		if compressed && length > 0 {
			if length < 8 {
				return fmt.Errorf("buffer %d is too short for its length", i)
			}
			if plain := int64(binary.LittleEndian.Uint64(body[offset:])); plain != -1 {
				length = plain
			}
		}
		if length < 0 || length > maxBuffer || decoded+length > 4*maxBuffer {
			return fmt.Errorf("buffer %d claims %d bytes", i, length)
		}
		decoded += length
	}
	if rows := batch.int64(batchLength); rows < 0 || rows > decoded {
		return fmt.Errorf("a batch claims %d rows in %d bytes", rows, decoded)
	}
	return nil
}
