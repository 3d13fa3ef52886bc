package unithash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

const (
	// Buckets is how many places Bucket tells apart: one is 0.01 % of the units.
	Buckets = 10_000
	// SumBuckets is how many clusters of whole units the sums of one arm and metric are kept in.
	SumBuckets = 4096
)

// sumSalt keeps the buckets of the sums independent of every experiment's split: with a common salt a bucket
// would hold units of one arm only.
const sumSalt = "millrace-sums-v1"

// Pseudonym is the name under which a unit is known past the gateway: HMAC-SHA256 of the unit under the
// installation's key, its first 16 bytes in lower-case hex.
func Pseudonym(key []byte, unit string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(unit))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// Bucket is the unit's place, 0 … 9,999, in the layer that the seed names: FNV-1a 32 of the decimal digits of
// FNV-1a 32 of seed and id, modulo 10,000 (GrowthBook's hash version 2). The second pass breaks the
// correlation that a plain FNV-1a has between related seeds. Each layer and each experiment needs a seed of
// its own.
func Bucket(seed, id string) int { return int(twice(seed, id) % Buckets) }

// SumBucket is the cluster, 0 … 4,095, in which a unit's turns are summed.
func SumBucket(unitHash string) int { return int(twice(sumSalt, unitHash) % SumBuckets) }

func twice(seed, id string) uint32 {
	var digits [10]byte
	return fnv1a(fnvOffset, strconv.AppendUint(digits[:0], uint64(fnv1a(fnv1a(fnvOffset, seed), id)), 10))
}

const (
	fnvOffset = 2166136261
	fnvPrime  = 16777619
)

// fnv1a is hash/fnv's 32-bit FNV-1a without its allocation: assignment answers from the hot path.
func fnv1a[T string | []byte](h uint32, s T) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * fnvPrime
	}
	return h
}
