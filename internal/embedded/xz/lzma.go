package xz

import (
	"encoding/binary"
	"fmt"
)

// decoder is the state of LZMA inside of LZMA2.
type decoder struct {
	dict   int
	window []byte // what was decoded, at least the last dict bytes of it
	total  int    // bytes since the dictionary's reset
	ready  bool   // properties and state have been set

	lc, lp, pb uint
	state      uint // what came last: a literal, a match, a repeated match, …
	rep        [4]uint32

	isMatch, isRep0Long           [states << 4]prob
	isRep, isRep0, isRep1, isRep2 [states]prob
	slots                         [4][64]prob
	distances                     [115]prob
	align                         [16]prob
	lengths, repLengths           lengthProbs
	literals                      []prob

	rc rangeDecoder
}

const (
	states    = 12
	matchMin  = 2
	fullFrom  = 14 // distance slots from here on end in directly coded bits
	alignBits = 4
)

type prob = uint16 // that the next bit is 0, of 2048

type lengthProbs struct {
	choice, longer prob
	low, mid       [16][8]prob
	high           [256]prob
}

func (d *decoder) reset(dict int) {
	d.dict, d.window, d.total, d.ready = dict, d.window[:0], 0, false
}

func (d *decoder) properties(p byte, newDict bool) error {
	if p >= 9*5*5 {
		return fmt.Errorf("%w: properties %d", ErrCorrupt, p)
	}
	d.lc, d.lp, d.pb = uint(p%9), uint(p/9%5), uint(p/45)
	if d.lc+d.lp > 4 {
		return fmt.Errorf("%w: %d and %d literal bits", ErrCorrupt, d.lc, d.lp)
	}
	if newDict {
		d.window, d.total = d.window[:0], 0
	}
	d.ready = true
	return nil
}

func (d *decoder) newState() {
	d.state, d.rep = 0, [4]uint32{}
	d.literals = make([]prob, 0x300<<(d.lc+d.lp))
	half(d.literals)
	half(d.isMatch[:])
	half(d.isRep0Long[:])
	for _, p := range []*[states]prob{&d.isRep, &d.isRep0, &d.isRep1, &d.isRep2} {
		half(p[:])
	}
	for i := range d.slots {
		half(d.slots[i][:])
	}
	half(d.distances[:])
	half(d.align[:])
	for _, l := range []*lengthProbs{&d.lengths, &d.repLengths} {
		l.choice, l.longer = 1024, 1024
		for i := range l.low {
			half(l.low[i][:])
			half(l.mid[i][:])
		}
		half(l.high[:])
	}
}

func half(p []prob) {
	for i := range p {
		p[i] = 1024
	}
}

// room drops what lies further back than the dictionary reaches, before n more bytes come.
func (d *decoder) room(n int) {
	if len(d.window) > d.dict && len(d.window)+n > cap(d.window) {
		d.window = append(d.window[:0], d.window[len(d.window)-d.dict:]...)
	}
}

// store takes bytes as they are.
func (d *decoder) store(plain []byte, newDict bool) ([]byte, error) {
	if newDict {
		d.window, d.total, d.ready = d.window[:0], 0, false
	}
	d.room(len(plain))
	d.window = append(d.window, plain...)
	d.total += len(plain)
	return plain, nil
}

// decode decodes a chunk into exactly n bytes; they are good until the next call.
func (d *decoder) decode(packed []byte, n int, newState bool) ([]byte, error) {
	if !d.ready {
		return nil, fmt.Errorf("%w: a chunk without properties", ErrCorrupt)
	}
	if newState {
		d.newState()
	}
	if d.literals == nil {
		return nil, fmt.Errorf("%w: a chunk without a state", ErrCorrupt)
	}
	if err := d.rc.begin(packed); err != nil {
		return nil, err
	}
	d.room(n)
	begin := len(d.window)
	end := begin + n
	for len(d.window) < end {
		before := len(d.window)
		if err := d.symbol(end); err != nil {
			return nil, err
		}
		d.total += len(d.window) - before
		if d.rc.overrun {
			return nil, fmt.Errorf("%w: a chunk ends too early", ErrCorrupt)
		}
	}
	if len(d.rc.in) != 0 || d.rc.code != 0 {
		return nil, fmt.Errorf("%w: a chunk doesn't end where it should", ErrCorrupt)
	}
	return d.window[begin:], nil
}

// symbol decodes a literal or a match.
func (d *decoder) symbol(end int) error {
	rc := &d.rc
	posState := uint(d.total) & (1<<d.pb - 1)
	if rc.bit(&d.isMatch[d.state<<4+posState]) == 0 {
		d.literal()
		return nil
	}
	var length int
	if rc.bit(&d.isRep[d.state]) == 0 { // a match at a new distance
		d.rep[3], d.rep[2], d.rep[1] = d.rep[2], d.rep[1], d.rep[0]
		length = d.length(&d.lengths, posState)
		d.rep[0] = d.distance(length)
		d.state = after(d.state, 7, 10)
	} else {
		if rc.bit(&d.isRep0[d.state]) == 0 {
			if rc.bit(&d.isRep0Long[d.state<<4+posState]) == 0 { // one byte
				d.state = after(d.state, 9, 11)
				return d.copy(1, end)
			}
		} else {
			var distance uint32
			if rc.bit(&d.isRep1[d.state]) == 0 {
				distance = d.rep[1]
			} else {
				if rc.bit(&d.isRep2[d.state]) == 0 {
					distance = d.rep[2]
				} else {
					distance, d.rep[3] = d.rep[3], d.rep[2]
				}
				d.rep[2] = d.rep[1]
			}
			d.rep[1], d.rep[0] = d.rep[0], distance
		}
		length = d.length(&d.repLengths, posState)
		d.state = after(d.state, 8, 11)
	}
	return d.copy(length, end)
}

func after(state, afterLiteral, afterMatch uint) uint {
	if state < 7 {
		return afterLiteral
	}
	return afterMatch
}

// copy repeats what stands at the last distance. A match doesn't reach over a chunk's end.
func (d *decoder) copy(n, end int) error {
	distance := int(d.rep[0]) + 1
	if distance > len(d.window) || distance > d.total || distance > d.dict || len(d.window)+n > end {
		return fmt.Errorf("%w: a match of %d bytes, %d back", ErrCorrupt, n, distance)
	}
	for range n {
		d.window = append(d.window, d.window[len(d.window)-distance])
	}
	return nil
}

func (d *decoder) literal() {
	var previous byte
	if d.total > 0 {
		previous = d.window[len(d.window)-1]
	}
	context := uint(d.total)&(1<<d.lp-1)<<d.lc + uint(previous)>>(8-d.lc)
	probs := d.literals[0x300*context : 0x300*(context+1)]
	symbol := uint(1)
	// After a match the byte at its distance tells something: it was not a match any more.
	if distance := int(d.rep[0]) + 1; d.state >= 7 && distance <= len(d.window) {
		matched := uint(d.window[len(d.window)-distance])
		for symbol < 0x100 {
			matched <<= 1
			expected := matched >> 8 & 1
			bit := d.rc.bit(&probs[(1+expected)<<8+symbol])
			symbol = symbol<<1 | bit
			if bit != expected {
				break
			}
			matched &= 0xff
		}
	}
	for symbol < 0x100 {
		symbol = symbol<<1 | d.rc.bit(&probs[symbol])
	}
	d.window = append(d.window, byte(symbol))
	switch {
	case d.state < 4:
		d.state = 0
	case d.state < 10:
		d.state -= 3
	default:
		d.state -= 6
	}
}

func (d *decoder) length(l *lengthProbs, posState uint) int {
	if d.rc.bit(&l.choice) == 0 {
		return matchMin + int(d.rc.tree(l.low[posState][:]))
	}
	if d.rc.bit(&l.longer) == 0 {
		return matchMin + 8 + int(d.rc.tree(l.mid[posState][:]))
	}
	return matchMin + 16 + int(d.rc.tree(l.high[:]))
}

func (d *decoder) distance(length int) uint32 {
	slot := d.rc.tree(d.slots[min(length-matchMin, 3)][:])
	if slot < 4 {
		return slot
	}
	bits := slot>>1 - 1
	distance := (2 | slot&1) << bits
	if slot < fullFrom {
		return distance + d.rc.reverse(d.distances[distance-slot:], bits)
	}
	return distance + d.rc.direct(bits-alignBits)<<alignBits + d.rc.reverse(d.align[:], alignBits)
}

// rangeDecoder turns bytes into bits of given probabilities.
type rangeDecoder struct {
	in      []byte
	width   uint32
	code    uint32
	overrun bool
}

func (r *rangeDecoder) begin(in []byte) error {
	if len(in) < 5 || in[0] != 0 {
		return fmt.Errorf("%w: beginning of a chunk", ErrCorrupt)
	}
	*r = rangeDecoder{in: in[5:], width: 0xffffffff, code: binary.BigEndian.Uint32(in[1:])}
	return nil
}

func (r *rangeDecoder) normalise() {
	if r.width >= 1<<24 {
		return
	}
	r.width <<= 8
	r.code <<= 8
	if len(r.in) == 0 {
		r.overrun = true
		return
	}
	r.code |= uint32(r.in[0])
	r.in = r.in[1:]
}

func (r *rangeDecoder) bit(p *prob) uint {
	bound := r.width >> 11 * uint32(*p)
	var bit uint
	if r.code < bound {
		r.width = bound
		*p += (2048 - *p) >> 5
	} else {
		r.width -= bound
		r.code -= bound
		*p -= *p >> 5
		bit = 1
	}
	r.normalise()
	return bit
}

// direct decodes bits that are as often 0 as 1.
func (r *rangeDecoder) direct(bits uint32) (value uint32) {
	for range bits {
		r.width >>= 1
		bit := uint32(0)
		if r.code >= r.width {
			r.code -= r.width
			bit = 1
		}
		value = value<<1 | bit
		r.normalise()
	}
	return value
}

// tree decodes a number, the highest bit first; its probabilities form a binary tree.
func (r *rangeDecoder) tree(p []prob) uint32 {
	symbol := uint(1)
	for symbol < uint(len(p)) {
		symbol = symbol<<1 | r.bit(&p[symbol])
	}
	return uint32(symbol) - uint32(len(p))
}

// reverse decodes a number, the lowest bit first.
func (r *rangeDecoder) reverse(p []prob, bits uint32) (value uint32) {
	symbol := uint(1)
	for i := range bits {
		bit := r.bit(&p[symbol])
		symbol = symbol<<1 | bit
		value |= uint32(bit) << i
	}
	return value
}
