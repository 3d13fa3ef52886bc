package cut

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// turn is one turn's rows in one shard: they are contiguous there and stay together in a part.
type turn struct {
	place   uint64 // its seeded place in the order
	id      string
	session string
	unit    string
	shard   int // index in the selection
	first   int // row in the shard
	rows    int
	bytes   int64 // estimate of the rows' arrays
	tokens  int64 // trained
}

// place is where a turn stands in the cut's order: a hash of the seed and the turn's id.
func place(seed, turnID string) uint64 {
	h := sha256.New()
	h.Write([]byte(seed))
	h.Write([]byte{0})
	h.Write([]byte(turnID))
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// order sorts turns by their seeded place. Nothing depends on the order in which shards were read.
func order(turns []turn) {
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.id, b.id), cmp.Compare(a.session, b.session),
			cmp.Compare(a.shard, b.shard), cmp.Compare(a.first, b.first))
	})
}

// limit takes each unit's first turns in the seeded order, up to share of all rows but at least floor rows, and
// counts what is over: feedback can be adversarial, so nobody may own a cut. Rows without a unit have no share to
// count. Whole turns only.
func limit(ordered []turn, share float64, floor int64) (kept []turn, capped int64) {
	var all int64
	for _, t := range ordered {
		all += int64(t.rows)
	}
	most := max(floor, int64(share*float64(all)))
	used := map[string]int64{}
	for _, t := range ordered {
		if t.unit != "" {
			if used[t.unit]+int64(t.rows) > most {
				capped += int64(t.rows)
				continue
			}
			used[t.unit] += int64(t.rows)
		}
		kept = append(kept, t)
	}
	return kept, capped
}

// split cuts the ordered turns into parts of about size bytes each.
func split(ordered []turn, size int64) [][]turn {
	var (
		parts [][]turn
		from  int
		bytes int64
	)
	for i, t := range ordered {
		if i > from && bytes+t.bytes > size {
			parts, from, bytes = append(parts, ordered[from:i]), i, 0
		}
		bytes += t.bytes
	}
	if from < len(ordered) {
		parts = append(parts, ordered[from:])
	}
	return parts
}
