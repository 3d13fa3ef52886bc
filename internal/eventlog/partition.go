package eventlog

import "encoding/binary"

// PartitionOf gives the partition of a key as Kafka's Java producer does by default: murmur2, the sign bit
// cleared, modulo the number of partitions (org.apache.kafka.common.utils.Utils.murmur2). librdkafka does the same
// with partitioner=murmur2_random, kafka-go with Murmur2Balancer{Consistent: true}.
func PartitionOf(key []byte, partitions int) int32 {
	return int32(murmur2(key) & 0x7fffffff % uint32(partitions))
}

func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data)
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}
