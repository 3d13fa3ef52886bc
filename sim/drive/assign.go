package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// evaluation is OFREP's answer to one flag.
type evaluation struct {
	Value    string `json:"value"`
	Metadata struct {
		Experiment string `json:"experiment"`
		Arm        string `json:"arm"`
	} `json:"metadata"`
}

var errNotRunning = errors.New("sessions are assigned while Run plays the source only")

// Assign asks the server which checkpoint serves a unit's session. It is for the source that Run plays. A server that
// is away is asked again until Run's context ends; what can't be repaired so ends Run.
func (d *Driver) Assign(unit, session string) (version, experiment, arm string) {
	if d.ctx == nil {
		d.unassigned = errNotRunning
	}
	if d.unassigned != nil {
		return "", "", "" // Run is about to end
	}
	e, err := d.evaluate(d.ctx, unit, session)
	if err != nil {
		d.unassigned = err
		return "", "", ""
	}
	d.count(func(s *Stats) { s.Assigned++ })
	return e.Value, e.Metadata.Experiment, e.Metadata.Arm
}

func (d *Driver) evaluate(ctx context.Context, unit, session string) (*evaluation, error) {
	body, err := json.Marshal(map[string]any{"context": map[string]string{"targetingKey": unit, "sessionId": session}})
	if err != nil {
		return nil, err
	}
	path := "/ofrep/v1/evaluate/flags/" + url.PathEscape(d.cfg.Flag)
	for tries := 0; ; tries++ {
		code, header, raw, err := d.request(ctx, http.MethodPost, path, "application/json", body)
		switch {
		case err == nil && code == http.StatusOK:
			var e evaluation
			if err := json.Unmarshal(raw, &e); err != nil {
				return nil, fmt.Errorf("the answer to %s is not OFREP's: %w: %s", path, err, clipped(raw))
			}
			if e.Value == "" {
				return nil, fmt.Errorf("the answer to %s names no checkpoint: %s", path, clipped(raw))
			}
			return &e, nil
		case err == nil && code < 500 && code != http.StatusTooManyRequests:
			return nil, fmt.Errorf("%s answers %d: %s", path, code, clipped(raw))
		}
		if waited := d.pause(ctx, tries, retryAfter(header)); waited != nil {
			return nil, errors.Join(waited, err)
		}
	}
}
