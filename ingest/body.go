package ingest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"millrace/ingest/eventjson"
)

// format is how a request's events are written.
type format int

const (
	formatJSON format = iota
	formatLines
	formatProtobuf
)

var formats = map[string]format{
	"application/json":       formatJSON,
	"application/x-ndjson":   formatLines,
	"application/ndjson":     formatLines,
	"application/jsonl":      formatLines,
	"application/x-protobuf": formatProtobuf,
	"application/protobuf":   formatProtobuf,
}

// items are a request's events, not judged yet.
type items struct {
	raw    [][]byte
	format format
}

// memory bounds the bodies that are in memory at once.
type memory struct {
	used  atomic.Int64
	limit int64
}

// take reserves n bytes, or nothing and says no.
func (m *memory) take(n int64) bool {
	if m.used.Add(n) > m.limit {
		m.used.Add(-n)
		return false
	}
	return true
}

func (m *memory) release(n int64) { m.used.Add(-n) }

var (
	errTooLong  = errors.New("too long")
	errNoMemory = errors.New("no memory left")
)

// readItems reads the request's body and finds its items. release gives the body's memory back; it is never nil.
func (g *Gateway) readItems(w http.ResponseWriter, r *http.Request) (found items, release func(), p *problem) {
	release = func() {}
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	kind, ok := formats[mediaType]
	if err != nil || !ok {
		return items{}, release, &problem{status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Message: fmt.Sprintf(
			"content type %q; send application/json, application/x-ndjson or application/x-protobuf (curl: -H 'content-type: application/json')",
			r.Header.Get("Content-Type"))}
	}
	plain, closeReader, p := g.decompressed(w, r)
	if p != nil {
		return items{}, release, p
	}
	defer closeReader()
	body, held, err := readAll(plain, g.cfg.Limits.DecompressedBytes, &g.memory)
	release = func() { g.memory.release(held) }
	if err != nil {
		return items{}, release, g.readProblem(err)
	}
	g.metrics.bytes.Add(float64(len(body)))
	found = items{format: kind}
	switch kind {
	case formatJSON:
		found.raw, err = eventjson.SplitDocument(body, g.cfg.Limits.Items)
	case formatLines:
		found.raw, err = eventjson.SplitLines(body, g.cfg.Limits.Items)
	case formatProtobuf:
		found.raw, err = splitBatch(body, g.cfg.Limits.Items)
	}
	if err != nil {
		return items{}, release, g.readProblem(err)
	}
	return found, release, nil
}

func (g *Gateway) decompressed(w http.ResponseWriter, r *http.Request) (plain io.Reader, closeReader func(), p *problem) {
	body := http.MaxBytesReader(w, r.Body, g.cfg.Limits.BodyBytes)
	switch encoding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
		return body, func() {}, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bufio.NewReader(body))
		if err != nil {
			return nil, nil, g.readProblem(fmt.Errorf("gzip: %w", err))
		}
		return z, func() { z.Close() }, nil
	case "zstd":
		z, err := zstd.NewReader(body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			return nil, nil, g.readProblem(fmt.Errorf("zstd: %w", err))
		}
		return z, z.Close, nil
	default:
		return nil, nil, &problem{
			status: http.StatusUnsupportedMediaType, Code: "unsupported_encoding",
			Message: fmt.Sprintf("content encoding %q; send gzip, zstd or none", encoding),
		}
	}
}

// readProblem tells what the client must change from what it may send again.
func (g *Gateway) readProblem(err error) *problem {
	limits := g.cfg.Limits
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return &problem{status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Message: fmt.Sprintf("more than %d bytes; send smaller batches", limits.BodyBytes), Limits: &limits}
	case errors.Is(err, errTooLong):
		return &problem{status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Message: fmt.Sprintf("more than %d bytes when decompressed; send smaller batches", limits.DecompressedBytes), Limits: &limits}
	case errors.Is(err, eventjson.ErrTooMany):
		return &problem{status: http.StatusRequestEntityTooLarge, Code: "too_many_items", Message: fmt.Sprintf("more than %d events; send smaller batches", limits.Items), Limits: &limits}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{status: http.StatusRequestTimeout, Code: "body_too_slow", Message: "the body did not come in time; send it again, in smaller batches"}
	case errors.Is(err, errNoMemory):
		return &problem{status: http.StatusServiceUnavailable, retryAfter: 1, Code: "busy", Message: "too many bodies at once; send again"}
	}
	return &problem{status: http.StatusBadRequest, Code: "unreadable_envelope", Message: err.Error()}
}

// readAll reads r to its end into memory that it reserves as it goes; held is what the caller must release, also after
// an error.
func readAll(r io.Reader, limit int64, m *memory) (body []byte, held int64, err error) {
	for size := min(64<<10, limit+1); ; size = min(2*size, limit+1) {
		if !m.take(size - held) {
			return nil, held, errNoMemory
		}
		held = size
		grown := make([]byte, len(body), size)
		copy(grown, body)
		body = grown
		for int64(len(body)) < size {
			n, err := r.Read(body[len(body):size])
			body = body[:len(body)+n]
			if int64(len(body)) > limit {
				return nil, held, errTooLong
			}
			if errors.Is(err, io.EOF) {
				return body, held, nil
			}
			if err != nil {
				return nil, held, err
			}
		}
	}
}

// splitBatch finds the events of an EventBatch without reading them, so that a broken one stays one broken item.
func splitBatch(body []byte, limit int) ([][]byte, error) {
	var raw [][]byte
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 || number != 1 || kind != protowire.BytesType {
			return nil, fmt.Errorf("%w: item %d: not an EventBatch of millrace.events.v1", eventjson.ErrEnvelope, len(raw))
		}
		item, m := protowire.ConsumeBytes(body[n:])
		if m < 0 {
			return nil, fmt.Errorf("%w: item %d is cut short", eventjson.ErrEnvelope, len(raw))
		}
		if len(raw) == limit {
			return nil, fmt.Errorf("%w: more than %d", eventjson.ErrTooMany, limit)
		}
		raw = append(raw, item)
		body = body[n+m:]
	}
	return raw, nil
}
