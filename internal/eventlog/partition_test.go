package eventlog

import (
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// The vectors of org.apache.kafka.common.utils.UtilsTest.testMurmur2.
func TestMurmur2IsJavas(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		require.Equal(t, want, int32(murmur2([]byte(key))), key)
	}
}

func TestPartitionIsKafkaGos(t *testing.T) {
	t.Parallel()
	balancer := kafka.Murmur2Balancer{Consistent: true}
	key := []byte{}
	for i := range 300 {
		for _, n := range []int{1, 7, 8, 64} {
			all := make([]int, n)
			for p := range all {
				all[p] = p
			}
			require.EqualValues(t, balancer.Balance(kafka.Message{Key: key}, all...), PartitionOf(key, n))
		}
		key = append(key, byte(i*131))
	}
}
