package sim

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
)

func base36(x uint64) string { return strconv.FormatUint(x, 36) }

func writeInt(b *strings.Builder, x int64) {
	var buf [20]byte
	b.Write(strconv.AppendInt(buf[:0], x, 10))
}

// name joins a stem, a letter and a number: identities without fmt, which would be the slowest part of an event.
func name(stem string, kind byte, n uint64) string {
	buf := make([]byte, 0, len(stem)+8)
	buf = append(buf, stem...)
	buf = append(buf, '.', kind)
	buf = strconv.AppendUint(buf, n, 10)
	return string(buf)
}

func stamp(us int64) *timestamppb.Timestamp {
	seconds, rest := us/second, us%second
	if rest < 0 {
		seconds, rest = seconds-1, rest+second
	}
	return &timestamppb.Timestamp{Seconds: seconds, Nanos: int32(rest * 1000)}
}

// hashed is what leaves the client of a path.
func hashed(path string) string {
	h := uint64(len(path))
	for i := range len(path) {
		h = mix(h ^ uint64(path[i]))
	}
	return base36(h)
}

func ptr[T any](x T) *T { return &x }
