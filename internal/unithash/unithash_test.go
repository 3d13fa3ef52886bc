package unithash

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vectors are public facts of GrowthBook's SDKs: any of them gives the same places as we do.
//
//go:embed testdata/hash.json
var vectors []byte

type vectorFile struct {
	Hash struct {
		Cases []struct {
			Seed, Value string
			Version     int
			Expected    *float64
		}
	}
	Ranges struct {
		Cases []struct {
			Case       string
			Variations int `json:"num_variations"`
			Coverage   float64
			Weights    []float64
			Expected   [][2]float64
		}
	} `json:"bucket_ranges"`
	Choose struct {
		Cases []struct {
			Case     string
			N        float64
			Ranges   [][2]float64
			Expected int
		}
	} `json:"choose_variation"`
	Namespace struct {
		Cases []struct {
			Case, User string
			Namespace  [3]any
			Expected   bool
		}
	}
}

func load(t *testing.T) (v vectorFile) {
	t.Helper()
	require.NoError(t, json.Unmarshal(vectors, &v))
	return v
}

// placeV1 is GrowthBook's older hash: only the vectors use it, to hold the FNV loop against more values.
func placeV1(s string) float64 { return float64(fnv1a(fnvOffset, s)%1000) / 1000 }

func TestHashVectors(t *testing.T) {
	t.Parallel()
	tested := 0
	for _, c := range load(t).Hash.Cases {
		t.Run(fmt.Sprintf("v%d %s|%s", c.Version, c.Seed, c.Value), func(t *testing.T) {
			switch c.Version {
			case 1:
				require.InDelta(t, *c.Expected, placeV1(c.Value+c.Seed), 1e-12)
			case 2:
				require.Equal(t, int(math.Round(*c.Expected*Buckets)), Bucket(c.Seed, c.Value))
			default:
				require.Nil(t, c.Expected, "an unknown version has no place")
			}
		})
		tested++
	}
	require.Equal(t, 13, tested)
}

func TestRangeVectors(t *testing.T) {
	t.Parallel()
	for _, c := range load(t).Ranges.Cases {
		t.Run(c.Case, func(t *testing.T) {
			got := Ranges(c.Variations, c.Coverage, c.Weights)
			require.Len(t, got, len(c.Expected))
			for i, want := range c.Expected {
				require.InDelta(t, want[0], got[i].From, 1e-9)
				require.InDelta(t, want[1], got[i].To, 1e-9)
			}
		})
	}
}

func TestChooseVectors(t *testing.T) {
	t.Parallel()
	for _, c := range load(t).Choose.Cases {
		t.Run(c.Case, func(t *testing.T) {
			ranges := make([]Range, len(c.Ranges))
			for i, r := range c.Ranges {
				ranges[i] = Range{From: r[0], To: r[1]}
			}
			require.Equal(t, c.Expected, Choose(int(math.Round(c.N*Buckets)), ranges))
		})
	}
}

func TestNamespaceVectors(t *testing.T) {
	t.Parallel()
	for _, c := range load(t).Namespace.Cases {
		t.Run(c.Case, func(t *testing.T) {
			id, from, to := c.Namespace[0].(string), c.Namespace[1].(float64), c.Namespace[2].(float64)
			inside := choose(placeV1(c.User+"__"+id), []Range{{From: from, To: to}}) == 0
			require.Equal(t, c.Expected, inside)
		})
	}
}

func TestPseudonym(t *testing.T) {
	t.Parallel()
	// RFC 4231, test case 2, the first 16 bytes.
	require.Equal(t, "5bdcc146bf60754e6a042426089575c7", Pseudonym([]byte("Jefe"), "what do ya want for nothing?"))
	require.NotEqual(t, Pseudonym([]byte("a"), "u"), Pseudonym([]byte("b"), "u"))
}

// The arms must be even inside every sum bucket, and the buckets evenly filled, or the variance over buckets
// isn't the variance over units.
func TestSumBucketsAreEvenAndIndependentOfTheArms(t *testing.T) {
	t.Parallel()
	const units = 200 * SumBuckets
	filled := make([]int, SumBuckets)
	candidate := make([]int, SumBuckets)
	key := []byte("k")
	arms := Ranges(2, 1, nil)
	id := Pseudonym(key, "seed")
	for i := range units {
		unit := fmt.Sprintf("%s%d", id, i)
		b := SumBucket(unit)
		filled[b]++
		candidate[b] += Choose(Bucket("experiment-7", unit), arms)
	}
	var chi2, chi2Arms float64
	for b, n := range filled {
		chi2 += math.Pow(float64(n)-200, 2) / 200
		chi2Arms += math.Pow(float64(candidate[b])-float64(n)/2, 2) / (float64(n) / 4)
	}
	// χ² of 4,095 degrees has mean 4,095 and sd 90.5: five sd either way.
	require.InDelta(t, SumBuckets-1, chi2, 5*90.5)
	require.InDelta(t, SumBuckets, chi2Arms, 5*90.5)
}

func TestBucketNeedsNoMemory(t *testing.T) {
	seed, id := "experiment-7", "5bdcc146bf60754e6a042426089575c7"
	require.Zero(t, testing.AllocsPerRun(100, func() { Bucket(seed, id); SumBucket(id) }))
}

// These numbers stand in stored experiments and sums: a change of them is a break of the format.
func TestFrozenPlaces(t *testing.T) {
	t.Parallel()
	require.Equal(t, 505, Bucket("seed", "a"))
	require.Equal(t, []int{694, 1251}, []int{SumBucket("a"), SumBucket("b")})
}
