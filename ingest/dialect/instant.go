package dialect

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// The times that a transcript may hold; what lies outside is a broken clock or another unit.
var (
	firstInstant = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	lastInstant  = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// instant reads a time: ISO 8601 with or without a zone (UTC then), or Unix time in seconds, milliseconds or
// microseconds, as a number or in a string. The unit is told by the size: the ranges of the three don't meet.
func instant(raw json.RawMessage) (time.Time, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return time.Time{}, fmt.Errorf("no timestamp")
	}
	text := string(raw)
	if raw[0] == '"' {
		text = jsonString(raw)
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
			if t, err := time.Parse(layout, text); err == nil {
				return inRange(t)
			}
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return time.Time{}, fmt.Errorf("timestamp %.40s is no time", raw)
	}
	switch {
	case n < 1e11:
		return inRange(time.UnixMicro(int64(math.Round(n * 1e6))))
	case n < 1e14:
		return inRange(time.UnixMicro(int64(math.Round(n * 1e3))))
	case n < 1e17:
		return inRange(time.UnixMicro(int64(n)))
	}
	return time.Time{}, fmt.Errorf("timestamp %.40s is outside the years 2000 to 2100", raw)
}

func inRange(t time.Time) (time.Time, error) {
	if t.Before(firstInstant) || !t.Before(lastInstant) {
		return time.Time{}, fmt.Errorf("timestamp %s is outside the years 2000 to 2100", t.UTC().Format(time.RFC3339))
	}
	return t.UTC().Truncate(time.Microsecond), nil
}
