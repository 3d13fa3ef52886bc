package checkpoint

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/checkpoint/audit"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/evals"
	"millrace/checkpoint/release"
	"millrace/checkpoint/webhook"
	"millrace/internal/unithash"
)

// served answers which version served a unit at a time; now without one.
func (a *API) served(r *http.Request) (any, error) {
	q := r.URL.Query()
	if q.Get("unit") == "" {
		return nil, badRequest{"unit is missing: the unit_id as the backend sends it"}
	}
	at, err := moment(q.Get("at"), a.Now())
	if err != nil {
		return nil, err
	}
	return release.ServedAt(r.Context(), a.DB, q.Get("unit"), at)
}

// moment reads a time of a query.
func moment(text string, otherwise time.Time) (time.Time, error) {
	if text == "" {
		return otherwise, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, badRequest{fmt.Sprintf("%q is no time: give one with its zone, 2026-03-01T12:00:00Z", text)}
	}
	return t, nil
}

// PauseRequest pauses the loop, or lets it go on.
type PauseRequest struct {
	Paused *bool  `json:"paused"`
	Why    string `json:"why"`
}

func (a *API) pause(r *http.Request) (any, error) {
	var d PauseRequest
	if err := read(r, &d); err != nil {
		return nil, err
	}
	if d.Paused == nil || d.Why == "" {
		return nil, badRequest{"paused (true or false) and why: both are needed, for the record"}
	}
	p := release.Pause{Paused: *d.Paused, At: a.Now().UTC(), Who: who(r), Why: d.Why}
	return p, a.tx(r.Context(), func(tx pgx.Tx) error { return release.SetPause(r.Context(), tx, p) })
}

// Anchor is the hold-back, if there is one.
type Anchor struct {
	HoldBack *release.HoldBack `json:"hold_back"`
}

func (a *API) anchor(r *http.Request) (any, error) {
	h, err := release.HeldBack(r.Context(), a.DB, a.Now())
	return Anchor{h}, err
}

// AnchorRequest begins a hold-back, or ends it where no version is given.
type AnchorRequest struct {
	Version string  `json:"version,omitempty"`
	Share   float64 `json:"share,omitempty"` // of the units that are held back, 0.0001 … 0.5; as many again are compared with them
	Why     string  `json:"why"`
}

func (a *API) hold(r *http.Request) (any, error) {
	var d AnchorRequest
	if err := read(r, &d); err != nil {
		return nil, err
	}
	buckets := int(math.Round(d.Share * unithash.Buckets))
	switch {
	case d.Why == "":
		return nil, badRequest{"why is missing: a hold-back needs a reason on record"}
	case d.Version != "" && (buckets < 1 || buckets > unithash.Buckets/2):
		return nil, badRequest{fmt.Sprintf("share %g: from 0.0001 to 0.5 of the units; as many again are compared with them", d.Share)}
	}
	err := a.tx(r.Context(), func(tx pgx.Tx) error {
		return release.Hold(r.Context(), tx, release.HoldBack{Version: d.Version, Buckets: buckets, At: a.Now(), Who: who(r), Why: d.Why})
	})
	if err != nil {
		return nil, err
	}
	return a.anchor(r)
}

// mostEntries is how many entries one answer holds at most.
const mostEntries = 1000

func (a *API) audit(r *http.Request) (any, error) {
	q := r.URL.Query()
	since, err := moment(q.Get("since"), time.Time{})
	if err != nil {
		return nil, err
	}
	limit, err := count(q.Get("limit"), mostEntries)
	if err != nil {
		return nil, err
	}
	all, err := audit.Read(r.Context(), a.DB, audit.Filter{Since: since, Object: q.Get("object"), Who: q.Get("who"), Limit: limit})
	return map[string]any{"entries": orEmpty(all)}, err
}

// count reads a limit of a query, from 1 to most.
func count(text string, most int) (int, error) {
	if text == "" {
		return most, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, badRequest{fmt.Sprintf("limit %q: from 1 to %d", text, most)}
	}
	return n, nil
}

// EvalReport is what a suite reports: of a candidate, or of any version that is known.
type EvalReport struct {
	Candidate      string             `json:"candidate,omitempty"` // its id or version; or
	Version        string             `json:"version,omitempty"`
	Suite          string             `json:"suite"`
	HarnessVersion string             `json:"harness_version"`
	Metrics        map[string]float64 `json:"metrics"`
	Seeds          []int64            `json:"seeds,omitempty"`
	Tasks          json.RawMessage    `json:"tasks,omitempty"`
}

func (a *API) reportEvals(r *http.Request) (any, error) {
	var d EvalReport
	if err := read(r, &d); err != nil {
		return nil, err
	}
	if (d.Candidate == "") == (d.Version == "") {
		return nil, badRequest{"give either candidate or version"}
	}
	report := evals.Report{
		Version: d.Version, Suite: d.Suite, HarnessVersion: d.HarnessVersion, Metrics: d.Metrics, Seeds: d.Seeds, Tasks: d.Tasks,
		At: a.Now().UTC(), Who: who(r),
	}
	err := a.tx(r.Context(), func(tx pgx.Tx) error {
		if d.Candidate != "" {
			c, err := candidate.Get(r.Context(), tx, d.Candidate)
			if err != nil {
				return err
			}
			if c.Version == "" {
				return badRequest{c.ID + " has no version yet: nothing was submitted"}
			}
			report.Version = c.Version
		} else if known, err := candidate.Ordinals(r.Context(), tx); err != nil {
			return err
		} else if _, there := known[d.Version]; !there {
			return badRequest{fmt.Sprintf("version %q is not registered: those of candidates are, once they are verified, and the one of release init", d.Version)}
		}
		if err := report.Check(); err != nil {
			return badRequest{err.Error()}
		}
		if a.Suites != nil && a.Suites.Find(report.Suite) == nil {
			return badRequest{fmt.Sprintf("suite %q is not configured", report.Suite)}
		}
		return evals.Store(r.Context(), tx, report)
	})
	return report, err
}

// Evals are the reports that count, and what they say of a candidate.
type Evals struct {
	Suites    []string       `json:"suites"` // that are configured
	Reports   []evals.Report `json:"reports"`
	Candidate string         `json:"candidate,omitempty"`
	Outcome   *evals.Outcome `json:"outcome,omitempty"` // of the candidate
}

func (a *API) evals(r *http.Request) (any, error) {
	out := Evals{Suites: []string{}}
	var (
		versions []string
		k        *candidate.Candidate
		err      error
	)
	if id := r.URL.Query().Get("candidate"); id != "" {
		if k, err = candidate.Get(r.Context(), a.DB, id); err != nil {
			return nil, err
		}
		out.Candidate, versions = k.ID, []string{k.Version, k.Base}
	}
	reports, err := evals.Newest(r.Context(), a.DB, versions...)
	if err != nil {
		return nil, err
	}
	out.Reports = orEmpty(reports)
	if a.Suites == nil {
		return out, nil
	}
	for _, s := range a.Suites.Suites {
		out.Suites = append(out.Suites, s.Name)
	}
	if k != nil {
		o := a.Suites.Decide(reports, k.Version, k.Base, a.Now())
		out.Outcome = &o
	}
	return out, nil
}

// Webhooks are the endpoints, without their secrets, and the newest deliveries.
type Webhooks struct {
	Endpoints  []WebhookEndpoint  `json:"endpoints"`
	Deliveries []webhook.Delivery `json:"deliveries"`
}

// WebhookEndpoint is one of them.
type WebhookEndpoint struct {
	Name  string   `json:"name"`
	URL   string   `json:"url"`
	Types []string `json:"types"` // none: all
}

func (a *API) deliveries(r *http.Request) (any, error) {
	limit, err := count(r.URL.Query().Get("limit"), mostEntries)
	if err != nil {
		return nil, err
	}
	out := Webhooks{Endpoints: []WebhookEndpoint{}}
	for _, e := range a.Webhooks {
		out.Endpoints = append(out.Endpoints, WebhookEndpoint{e.Name, e.URL, orEmpty(e.Types)})
	}
	all, err := webhook.Deliveries(r.Context(), a.DB, r.URL.Query().Get("endpoint"), limit)
	out.Deliveries = orEmpty(all)
	return out, err
}

// Redelivery is asking for a delivery to begin anew.
type Redelivery struct {
	Endpoint string `json:"endpoint"`
	Event    string `json:"event"`
}

func (a *API) redeliver(r *http.Request) (any, error) {
	var d Redelivery
	if err := read(r, &d); err != nil {
		return nil, err
	}
	return d, a.tx(r.Context(), func(tx pgx.Tx) error {
		there, err := webhook.Redeliver(r.Context(), tx, d.Endpoint, d.Event, a.Now())
		if err == nil && !there {
			err = badRequest{fmt.Sprintf("nothing was ever to be delivered to %q of event %q; `millrace webhook deliveries` lists what was", d.Endpoint, d.Event)}
		}
		return err
	})
}
