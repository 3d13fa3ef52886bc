package account

import (
	"fmt"
	"maps"
	"slices"

	"millrace/schemas/ledger"
)

// Class is what became of one record of the log.
type Class string

// Every record that is read ends in exactly one class.
const (
	Applied    Class = "applied"       // changed an open turn or a session
	Amended    Class = "amended"       // evidence on a settled turn
	Duplicate  Class = "duplicate"     // the same event again
	Orphan     Class = "orphan"        // evidence on a turn never seen
	Expired    Class = "expired"       // would open a turn, but is older than the dedupe window
	DeadLetter Class = "dead_lettered" // could not be taken; kept byte for byte in the dead-letter topic
	Control    Class = "control"       // a control record
)

// Classes in the order in which reports name them.
var Classes = []Class{Applied, Amended, Duplicate, Orphan, Expired, DeadLetter, Control}

// Settled is the key under which settled turns are counted.
type Settled struct {
	PolicyVersion string
	Arm           string
	Disposition   ledger.Disposition
}

// Balance is one partition's count, or the sum of several.
type Balance struct {
	Read    int64
	Records map[Class]int64
	Opened  int64
	Settled map[Settled]int64
	Open    map[string]int64 // by policy version of the first step, "none" before it
}

// New is an empty balance.
func New() Balance {
	return Balance{Records: map[Class]int64{}, Settled: map[Settled]int64{}, Open: map[string]int64{}}
}

// Add adds another balance.
func (b *Balance) Add(o Balance) {
	b.Read += o.Read
	b.Opened += o.Opened
	for k, n := range o.Records {
		b.Records[k] += n
	}
	for k, n := range o.Settled {
		b.Settled[k] += n
	}
	for k, n := range o.Open {
		b.Open[k] += n
	}
}

// Clone is a copy of its own.
func (b Balance) Clone() Balance {
	c := New()
	c.Add(b)
	return c
}

// SettledTurns is the number of settled turns.
func (b Balance) SettledTurns() int64 { return total(b.Settled) }

// OpenTurns is the number of open turns.
func (b Balance) OpenTurns() int64 { return total(b.Open) }

// ByDisposition sums the settled turns over versions and arms.
func (b Balance) ByDisposition() map[ledger.Disposition]int64 {
	out := map[ledger.Disposition]int64{}
	for k, n := range b.Settled {
		out[k.Disposition] += n
	}
	return out
}

// Check proves the two balances of the first law: records read = the sum of their classes, and turns opened =
// settled + open. The error says which side is off, and by how much.
func (b Balance) Check() error {
	if sum := total(b.Records); sum != b.Read {
		return fmt.Errorf("records: read %d, but %d are accounted for: %d are missing", b.Read, sum, b.Read-sum)
	}
	if settled, open := b.SettledTurns(), b.OpenTurns(); settled+open != b.Opened {
		return fmt.Errorf("turns: opened %d, but settled %d + open %d: %d are missing", b.Opened, settled, open, b.Opened-settled-open)
	}
	return nil
}

func total[K comparable](m map[K]int64) int64 {
	var n int64
	for _, v := range slices.Collect(maps.Values(m)) {
		n += v
	}
	return n
}
