package xz

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
)

// ErrCorrupt says that the input is not an .xz file, cut short or damaged.
var ErrCorrupt = errors.New("xz: corrupt input")

var magic = []byte{0xfd, '7', 'z', 'X', 'Z', 0}

const (
	lzma2Filter = 0x21
	maxDict     = 128 << 20 // more than any preset of xz asks for
)

// Reader decompresses.
type Reader struct {
	in      *bufio.Reader
	counted int64 // bytes of the block read, for its padding
	check   byte  // kind of the blocks' checks
	sum     hash.Hash
	lzma    decoder
	inBlock bool
	pending []byte // decoded, not read yet
	err     error
}

// NewReader reads the stream's header.
func NewReader(r io.Reader) (*Reader, error) {
	z := &Reader{in: bufio.NewReader(r)}
	var header [12]byte
	if _, err := io.ReadFull(z.in, header[:]); err != nil {
		return nil, fmt.Errorf("%w: no stream header: %w", ErrCorrupt, err)
	}
	if !bytes.Equal(header[:6], magic) || header[6] != 0 ||
		crc32.ChecksumIEEE(header[6:8]) != binary.LittleEndian.Uint32(header[8:]) {
		return nil, fmt.Errorf("%w: no stream header", ErrCorrupt)
	}
	z.check = header[7]
	switch z.check {
	case 0:
	case 1:
		z.sum = crc32.NewIEEE()
	case 4:
		z.sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	default:
		return nil, fmt.Errorf("xz: checks of kind %d are not supported", z.check)
	}
	return z, nil
}

// Read decompresses into p.
func (z *Reader) Read(p []byte) (int, error) {
	for len(z.pending) == 0 && z.err == nil {
		if z.err = z.advance(); z.err != nil && !errors.Is(z.err, io.EOF) && !errors.Is(z.err, ErrCorrupt) {
			z.err = fmt.Errorf("%w: %w", ErrCorrupt, z.err)
		}
	}
	n := copy(p, z.pending)
	z.pending = z.pending[n:]
	if n == 0 && len(p) > 0 {
		return 0, z.err
	}
	return n, nil
}

// advance decodes a chunk, or goes on to the next block, or to the end.
func (z *Reader) advance() error {
	if !z.inBlock {
		return z.beginBlock()
	}
	control, err := z.byte()
	if err != nil {
		return noEOF(err)
	}
	if control == 0 {
		return z.endBlock()
	}
	if z.pending, err = z.chunk(control); err != nil {
		return noEOF(err)
	}
	if z.sum != nil {
		z.sum.Write(z.pending)
	}
	return nil
}

// beginBlock reads a block's header; io.EOF where the index begins instead.
func (z *Reader) beginBlock() error {
	z.counted = 0
	size, err := z.byte()
	if err != nil {
		return noEOF(err)
	}
	if size == 0 {
		return io.EOF
	}
	header := make([]byte, (int(size)+1)*4)
	header[0] = size
	if err := z.full(header[1:]); err != nil {
		return err
	}
	body, sum := header[1:len(header)-4], binary.LittleEndian.Uint32(header[len(header)-4:])
	if crc32.ChecksumIEEE(header[:len(header)-4]) != sum {
		return fmt.Errorf("%w: block header's check", ErrCorrupt)
	}
	flags := body[0]
	rest := bytes.NewReader(body[1:])
	if flags&0x3f != 0 {
		return fmt.Errorf("xz: filters besides LZMA2 are not supported (flags %#x)", flags)
	}
	for _, sizeGiven := range []bool{flags&0x40 != 0, flags&0x80 != 0} {
		if sizeGiven {
			if _, err := binary.ReadUvarint(rest); err != nil {
				return noEOF(err)
			}
		}
	}
	var filter [3]byte // id, length of its properties, the dictionary's size
	if _, err := io.ReadFull(rest, filter[:]); err != nil {
		return noEOF(err)
	}
	if filter[0] != lzma2Filter || filter[1] != 1 || filter[2] > 40 {
		return fmt.Errorf("xz: filter %#x is not supported", filter[0])
	}
	dict := (2 | uint64(filter[2]&1)) << (filter[2]/2 + 11)
	if dict > maxDict {
		return fmt.Errorf("xz: a dictionary of %d bytes is not supported", dict)
	}
	z.lzma.reset(int(dict))
	if z.sum != nil {
		z.sum.Reset()
	}
	z.inBlock = true
	return nil
}

func (z *Reader) endBlock() error {
	z.inBlock = false
	for z.counted%4 != 0 {
		if b, err := z.byte(); err != nil || b != 0 {
			return fmt.Errorf("%w: padding of a block", ErrCorrupt)
		}
	}
	if z.sum == nil {
		return nil
	}
	given := make([]byte, z.sum.Size())
	if err := z.full(given); err != nil {
		return err
	}
	want := z.sum.Sum(nil) // big-endian; the file's is little-endian
	for i := range want {
		if want[i] != given[len(given)-1-i] {
			return fmt.Errorf("%w: check of a block", ErrCorrupt)
		}
	}
	return nil
}

// chunk decodes one LZMA2 chunk.
func (z *Reader) chunk(control byte) ([]byte, error) {
	if control < 0x80 { // stored
		if control > 2 {
			return nil, fmt.Errorf("%w: chunk of kind %#x", ErrCorrupt, control)
		}
		var size [2]byte
		if err := z.full(size[:]); err != nil {
			return nil, err
		}
		plain := make([]byte, int(binary.BigEndian.Uint16(size[:]))+1)
		if err := z.full(plain); err != nil {
			return nil, err
		}
		return z.lzma.store(plain, control == 1)
	}
	var sizes [4]byte
	if err := z.full(sizes[:]); err != nil {
		return nil, err
	}
	unpacked := int(control&0x1f)<<16 + int(binary.BigEndian.Uint16(sizes[:2])) + 1
	packed := make([]byte, int(binary.BigEndian.Uint16(sizes[2:]))+1)
	kind := control >> 5 & 3 // 0: goes on; 1: new state; 2: and properties; 3: and dictionary
	if kind >= 2 {
		properties, err := z.byte()
		if err != nil {
			return nil, err
		}
		if err := z.lzma.properties(properties, kind == 3); err != nil {
			return nil, err
		}
	}
	if err := z.full(packed); err != nil {
		return nil, err
	}
	return z.lzma.decode(packed, unpacked, kind >= 1)
}

func (z *Reader) byte() (byte, error) {
	z.counted++
	return z.in.ReadByte()
}

func (z *Reader) full(p []byte) error {
	z.counted += int64(len(p))
	_, err := io.ReadFull(z.in, p)
	return noEOF(err)
}

// noEOF: an end inside of a block is none.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: cut short", ErrCorrupt)
	}
	return err
}
