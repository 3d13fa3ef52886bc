package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"millrace/schemas/event"
)

// answer is the gateway's: one result per event, in the request's order.
type answer struct {
	Results []struct {
		EventID string `json:"eventId"`
		Status  string `json:"status"`
		Reason  string `json:"reason"`
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"results"`
}

// longestAnswer bounds what is read of one, bytes.
const longestAnswer = 16 << 20

// deliver sends events until each has its last word.
func (d *Driver) deliver(ctx context.Context, events []*event.SessionEvent) error {
	for tries := 0; len(events) > 0; tries++ {
		if tries > 0 {
			d.count(func(s *Stats) { s.SentAgain += int64(len(events)) })
		}
		left, wait, err := d.post(ctx, events)
		if err != nil {
			return err
		}
		if len(left) == len(events) || wait > 0 {
			if err := d.pause(ctx, tries, wait); err != nil {
				return err
			}
		}
		events = left
	}
	return nil
}

// post sends events once. left are those to be sent again, after a wait if the gateway named one.
func (d *Driver) post(ctx context.Context, events []*event.SessionEvent) (left []*event.SessionEvent, wait time.Duration, err error) {
	body, err := (&event.EventBatch{Events: events}).MarshalVT()
	if err != nil {
		return nil, 0, fmt.Errorf("encode %d events: %w", len(events), err)
	}
	code, header, raw, err := d.request(ctx, http.MethodPost, "/v1/events", "application/x-protobuf", body)
	if err != nil {
		return events, 0, nilUnlessOver(ctx)
	}
	wait = retryAfter(header)
	switch {
	case code == http.StatusRequestEntityTooLarge && len(events) > 1:
		half := len(events) / 2
		if err := d.deliver(ctx, events[:half]); err != nil {
			return nil, 0, err
		}
		return nil, 0, d.deliver(ctx, events[half:])
	case code == http.StatusOK || code == http.StatusMultiStatus || code == http.StatusServiceUnavailable:
		var a answer
		if err := json.Unmarshal(raw, &a); err == nil && len(a.Results) == len(events) {
			return d.settle(events, &a), wait, nil
		}
		if code != http.StatusServiceUnavailable {
			return nil, 0, fmt.Errorf("the gateway's answer does not fit %d events: %s", len(events), clipped(raw))
		}
		return events, wait, nil
	case code == http.StatusTooManyRequests || code >= 500:
		return events, wait, nil
	}
	return nil, 0, fmt.Errorf("the gateway answers %d: %s", code, clipped(raw))
}

// settle counts what was taken, and returns what was not.
func (d *Driver) settle(events []*event.SessionEvent, a *answer) (left []*event.SessionEvent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range a.Results {
		switch r.Status {
		case "accepted":
			d.stats.Accepted++
		case "duplicate":
			d.stats.Duplicates++
		case "rejected":
			if d.stats.Example == "" {
				d.stats.Example = fmt.Sprintf("%s: %s %s: %s", r.EventID, r.Reason, r.Field, r.Message)
			}
			d.stats.Rejected[r.Reason]++
		default:
			left = append(left, events[i])
		}
	}
	return left
}

// request makes one call and reads its whole answer.
func (d *Driver) request(ctx context.Context, method, path, contentType string, body []byte) (code int, header http.Header, raw []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, d.cfg.URL+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Authorization", "Bearer "+d.cfg.Token)
	d.count(func(s *Stats) { s.Requests++ })
	w, err := d.cfg.Client.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer w.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(w.Body, longestAnswer))
	return w.StatusCode, w.Header, raw, err
}

// pause waits before the next try: as long as the gateway said, or longer each time.
func (d *Driver) pause(ctx context.Context, tries int, named time.Duration) error {
	wait := d.cfg.Pause << min(tries, 10)
	if named > 0 {
		wait = named
	}
	timer := time.NewTimer(min(wait, d.cfg.MostPause))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// nilUnlessOver lets a failed connection be tried again while there is time.
func nilUnlessOver(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func clipped(raw []byte) string {
	const most = 300
	raw = bytes.TrimSpace(raw)
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// register makes the documents known that events refer to.
func (d *Driver) register(ctx context.Context) error {
	for digest, document := range d.cfg.Documents {
		for tries := 0; ; tries++ {
			code, header, raw, err := d.request(ctx, http.MethodPut, "/v1/tool-schemas/"+digest, "application/json", document)
			if err == nil && code < 300 {
				break
			}
			if err == nil && code < 500 && code != http.StatusTooManyRequests {
				return fmt.Errorf("drive: register the tool schemas %s: the gateway answers %d: %s", digest, code, clipped(raw))
			}
			if waited := d.pause(ctx, tries, retryAfter(header)); waited != nil {
				return fmt.Errorf("drive: register the tool schemas %s: %w", digest, errors.Join(waited, err))
			}
		}
	}
	return nil
}
