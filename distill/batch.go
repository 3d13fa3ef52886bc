package distill

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"

	"millrace/distill/engine"
	"millrace/internal/eventlog"
	"millrace/internal/unithash"
	"millrace/schemas/ledger"
	"millrace/schemas/metric"
	"millrace/schemas/sample"
)

// batch is what a run of records caused, between two boundaries of the log.
type batch struct {
	first, last int64 // offsets of the records
	logDigest   string
	rows        []ledger.Row
	samples     map[string][]sample.Row // by policy version
	deadLetters []eventlog.DeadLetter
	marks       []mark
	sums        map[sumKey]sum
	exposed     map[engine.Exposure]bool // units whose turns began
	settled     map[engine.Exposure]bool // units of which a turn has settled and counts
}

// mark is a cut's mark and where in the log it stands.
type mark struct {
	cut    string
	offset int64
}

type sumKey struct {
	experiment, metric, arm string
	bucket                  int
}

type sum struct{ num, den int64 }

func newBatch(first int64) *batch {
	return &batch{
		first: first, last: first - 1,
		samples: map[string][]sample.Row{}, sums: map[sumKey]sum{}, exposed: map[engine.Exposure]bool{}, settled: map[engine.Exposure]bool{},
	}
}

// add takes one record's effects.
func (b *batch) add(record eventlog.Record, eff engine.Effects) {
	b.last = record.Offset
	b.logDigest = digestOf(record)
	if eff.DeadLetter != "" {
		b.deadLetters = append(b.deadLetters, eventlog.DeadLetter{Record: record, Reason: eff.DeadLetter})
	}
	if eff.CutMark != "" {
		b.marks = append(b.marks, mark{eff.CutMark, record.Offset})
	}
	if eff.Exposed != nil {
		b.exposed[*eff.Exposed] = true
	}
	if eff.Amendment != nil {
		b.rows = append(b.rows, *eff.Amendment)
	}
	for i := range eff.Settled {
		s := &eff.Settled[i]
		b.rows = append(b.rows, s.Row)
		if len(s.Samples) > 0 {
			b.samples[s.Row.PolicyVersion] = append(b.samples[s.Row.PolicyVersion], s.Samples...)
		}
		b.count(s)
	}
}

// count adds a settled turn to the A/B sums: a bucket is a cluster of whole units.
func (b *batch) count(s *engine.Settled) {
	if len(s.Sums) > 0 && s.Row.UnitHash != "" {
		b.settled[engine.Exposure{Experiment: s.Row.Experiment, UnitHash: s.Row.UnitHash, Arm: s.Row.Arm}] = true
	}
	for _, c := range s.Sums {
		b.addSum(s.Row.Experiment, s.Row.Arm, s.Row.UnitHash, c)
	}
}

func (b *batch) addSum(experiment, arm, unitHash string, c metric.Contribution) {
	k := sumKey{experiment, c.Metric, arm, unithash.SumBucket(unitHash)}
	x := b.sums[k]
	b.sums[k] = sum{x.num + c.Num, x.den + c.Den}
}

// sumsInOrder are the sums in key order: partitions that write the same rows then can't deadlock.
func (b *batch) sumsInOrder() []sumKey {
	keys := make([]sumKey, 0, len(b.sums))
	for k := range b.sums {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y sumKey) int {
		return cmp.Or(cmp.Compare(x.experiment, y.experiment), cmp.Compare(x.metric, y.metric),
			cmp.Compare(x.arm, y.arm), cmp.Compare(x.bucket, y.bucket))
	})
	return keys
}

// inOrder are units in key order, as sums are.
func inOrder(units map[engine.Exposure]bool) []engine.Exposure {
	return slices.SortedFunc(maps.Keys(units), func(x, y engine.Exposure) int {
		return cmp.Or(cmp.Compare(x.Experiment, y.Experiment), cmp.Compare(x.UnitHash, y.UnitHash), cmp.Compare(x.Arm, y.Arm))
	})
}

// digestOf proves that a log still is the log it was: of a record's offset, time, key and value.
func digestOf(r eventlog.Record) string {
	h := sha256.New()
	var n [16]byte
	binary.LittleEndian.PutUint64(n[:8], uint64(r.Offset))
	binary.LittleEndian.PutUint64(n[8:], uint64(r.Time.UnixMilli()))
	h.Write(n[:])
	binary.LittleEndian.PutUint64(n[:8], uint64(len(r.Key)))
	h.Write(n[:8])
	h.Write(r.Key)
	h.Write(r.Value)
	return hex.EncodeToString(h.Sum(nil))
}
