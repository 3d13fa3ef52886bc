package gate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Evidence is everything that a verdict rests on. Times are of the log; sums are exact integers, so that the
// order of commits leaves no trace in them.
type Evidence struct {
	Experiment string `json:"experiment"`
	Control    string `json:"control"`   // the live checkpoint's id
	Candidate  string `json:"candidate"` // the tested checkpoint's id

	Now         time.Time `json:"now"` // when the evidence was read; nothing is decided by it
	StartsAt    time.Time `json:"starts_at"`
	CountsUntil time.Time `json:"counts_until"` // a turn counts if it started before this …
	EndsAt      time.Time `json:"ends_at"`      // … and settled by this
	// CommittedThrough is the least committed log time over the partitions: up to here the sums are complete.
	CommittedThrough time.Time `json:"committed_through"`

	Metrics      map[string]ArmSums `json:"metrics"`
	ExposedUnits Arms               `json:"exposed_units"` // distinct units, one seen in both arms counts in each
	MultiExposed int64              `json:"multi_exposed"` // distinct units seen in both arms
	// UnitsWithTelemetry are the units with a settled turn; nil when nobody counted them.
	UnitsWithTelemetry *Arms `json:"units_with_telemetry,omitempty"`
	// StillOpen are the turns that started in time to count and hadn't settled at the end; nil when nobody
	// counted them.
	StillOpen *Arms   `json:"still_open,omitempty"`
	Monitors  []Alarm `json:"monitors,omitempty"`
}

// Arms are a count in each arm.
type Arms struct {
	Control   int64 `json:"control"`
	Candidate int64 `json:"candidate"`
}

// Sum is the count in both arms.
func (a Arms) Sum() int64 { return a.Control + a.Candidate }

// ArmSums are a metric's sums in each arm, by bucket.
type ArmSums struct {
	Control   []BucketSum `json:"control"`
	Candidate []BucketSum `json:"candidate"`
}

// BucketSum is a bucket's numerator and denominator in millionths; [bucket, num, den] in JSON, since there are
// up to 4,096 of them in each arm and metric.
type BucketSum struct {
	Bucket   int
	Num, Den int64
}

// MarshalJSON implements json.Marshaler.
func (b BucketSum) MarshalJSON() ([]byte, error) {
	text := strconv.AppendInt([]byte{'['}, int64(b.Bucket), 10)
	text = strconv.AppendInt(append(text, ','), b.Num, 10)
	text = strconv.AppendInt(append(text, ','), b.Den, 10)
	return append(text, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler. It reads the three integers itself: a record has up to a hundred
// thousand of these, and a second parser for each would take longer than all the rest.
func (b *BucketSum) UnmarshalJSON(text []byte) error {
	inner, opened := strings.CutPrefix(string(text), "[")
	inner, closed := strings.CutSuffix(inner, "]")
	parts := strings.Split(inner, ",")
	if !opened || !closed || len(parts) != 3 {
		return fmt.Errorf("a bucket's sum is [bucket, num, den], not %s", text)
	}
	var list [3]int64
	for i, part := range parts {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil {
			return fmt.Errorf("a bucket's sum is three integers, not %s", text)
		}
		list[i] = n
	}
	*b = BucketSum{Bucket: int(list[0]), Num: list[1], Den: list[2]}
	return nil
}

// Alarm is a monitor's alarm. It stands in the way of a promotion until somebody acknowledges it by name.
type Alarm struct {
	ID             string    `json:"id"`
	Monitor        string    `json:"monitor"`
	Since          time.Time `json:"since"`
	Text           string    `json:"text"` // what it may mean, what to look at
	AcknowledgedBy string    `json:"acknowledged_by,omitempty"`
}

// sorted is the evidence in the one order in which it is read: floating-point sums depend on it.
func (e Evidence) sorted() Evidence {
	metrics := make(map[string]ArmSums, len(e.Metrics))
	for name, sums := range e.Metrics {
		metrics[name] = ArmSums{Control: byBucket(sums.Control), Candidate: byBucket(sums.Candidate)}
	}
	e.Metrics = metrics
	return e
}

func byBucket(sums []BucketSum) []BucketSum {
	order := func(a, b BucketSum) int { return a.Bucket - b.Bucket }
	if slices.IsSortedFunc(sums, order) {
		return sums
	}
	sums = slices.Clone(sums)
	slices.SortStableFunc(sums, order)
	return sums
}

// digest is the SHA-256 of the sums: metrics by name, control before candidate, buckets in order, every number
// as a big-endian 64-bit integer.
func (e Evidence) digest() string {
	names := make([]string, 0, len(e.Metrics))
	for name := range e.Metrics {
		names = append(names, name)
	}
	sort.Strings(names)
	h := sha256.New()
	var rows []byte
	for _, name := range names {
		for arm, sums := range [][]BucketSum{e.Metrics[name].Control, e.Metrics[name].Candidate} {
			rows = fmt.Appendf(rows[:0], "%s %d %d\n", name, arm, len(sums))
			for _, b := range sums {
				rows = binary.BigEndian.AppendUint64(rows, uint64(b.Bucket))
				rows = binary.BigEndian.AppendUint64(rows, uint64(b.Num))
				rows = binary.BigEndian.AppendUint64(rows, uint64(b.Den))
			}
			h.Write(rows)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
