package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/checkpoint/adoption"
	"millrace/checkpoint/candidate"
	"millrace/checkpoint/cut"
	"millrace/checkpoint/evals"
	"millrace/checkpoint/experiment"
	"millrace/checkpoint/gate"
	"millrace/checkpoint/release"
	"millrace/checkpoint/schedule"
	"millrace/checkpoint/webhook"
	"millrace/internal/auth"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
)

// API answers what trainers and release managers ask. Any number of processes may serve it; only the loop has a
// leader. What a person does here is stored at once; the loop publishes it at its next pass.
type API struct {
	DB    *pgxpool.Pool
	Store objstore.Store
	// Now is the clock of the loop: real time, or simulated.
	Now func() time.Time
	// Guard lets a request through whose token has the scope.
	Guard func(auth.Scope) func(http.Handler) http.Handler
	Topic string // of the experiments' evidence
	// Partitions of the topic.
	Partitions int
	Suites     *evals.Suites      // as the loop has them
	Webhooks   []webhook.Endpoint // likewise
	Log        *slog.Logger
}

// maxBody bounds a submission: some ten thousand files.
const maxBody = 4 << 20

// Handler serves the routes below /v1/.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		pattern string
		scope   auth.Scope
		answer  func(*http.Request) (any, error)
	}{
		{"GET /v1/cuts", auth.ShardsRead, a.cuts},
		{"GET /v1/cuts/{id}", auth.ShardsRead, a.cut},
		{"POST /v1/cuts", auth.ReleasesWrite, a.askForCut},
		{"POST /v1/cuts/{id}/without", auth.ReleasesWrite, a.goOnWithout},
		{"POST /v1/candidates", auth.CandidatesWrite, a.submit},
		{"GET /v1/candidates", auth.GatesRead, a.candidates},
		{"GET /v1/candidates/{id}", auth.GatesRead, a.candidate},
		{"GET /v1/candidates/{id}/verdict", auth.GatesRead, a.verdict},
		{"GET /v1/experiments", auth.GatesRead, a.experiments},
		{"GET /v1/experiments/{id}", auth.GatesRead, a.experiment},
		{"GET /v1/experiments/{id}/evidence", auth.GatesRead, a.evidence},
		{"GET /v1/release/history", auth.GatesRead, a.history},
		{"GET /v1/release", auth.GatesRead, a.status},
		{"POST /v1/release", auth.ReleasesWrite, a.release},
		{"GET /v1/release/served", auth.GatesRead, a.served},
		{"GET /v1/release/anchor", auth.GatesRead, a.anchor},
		{"POST /v1/release/anchor", auth.ReleasesWrite, a.hold},
		{"POST /v1/release/pause", auth.ReleasesWrite, a.pause},
		{"GET /v1/audit", auth.GatesRead, a.audit},
		{"GET /v1/evals", auth.GatesRead, a.evals},
		{"POST /v1/evals", auth.CandidatesWrite, a.reportEvals},
		{"GET /v1/webhooks/deliveries", auth.GatesRead, a.deliveries},
		{"POST /v1/webhooks/deliveries", auth.ReleasesWrite, a.redeliver},
		{"GET /v1/reward", auth.GatesRead, a.rewardInForce},
		{"GET /v1/reward/history", auth.GatesRead, a.rewardHistory},
		{"POST /v1/reward", auth.RewardsWrite, a.adoptReward},
	} {
		mux.Handle(route.pattern, a.Guard(route.scope)(a.answer(route.answer)))
	}
	mux.Handle("GET /v1/cuts/{id}/manifest", a.Guard(auth.ShardsRead)(http.HandlerFunc(a.manifest)))
	mux.Handle("GET /v1/cuts/{id}/parts/{n}", a.Guard(auth.ShardsRead)(http.HandlerFunc(a.part)))
	return mux
}

func (a *API) answer(f func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		value, err := f(r)
		if err != nil {
			a.fail(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		//nolint:errcheck // the client is gone
		json.NewEncoder(w).Encode(value)
	})
}

// badRequest is what the client has to change.
type badRequest struct{ message string }

func (e badRequest) Error() string { return e.message }

// Failure is the body of every answer that is not 2xx.
type Failure struct {
	Error   string `json:"error"` // a code that clients may rely on
	Message string `json:"message"`
	Field   string `json:"field,omitempty"`
}

// fail turns an error into its status: what clients have to tell apart has a code of its own.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	var (
		refusal    *candidate.Refusal
		transition *candidate.TransitionError
		bad        badRequest
		invalid    *adoption.Invalid
		conflict   *adoption.Conflict
		tooLarge   *http.MaxBytesError
	)
	status, failure := http.StatusServiceUnavailable, Failure{Error: "unavailable", Message: "the checkpoint role can't answer now; try again"}
	switch {
	case errors.As(err, &refusal):
		status, failure = http.StatusUnprocessableEntity, Failure{Error: string(refusal.Code), Message: refusal.Message, Field: refusal.Field}
		switch refusal.Code {
		case candidate.Malformed:
			status = http.StatusBadRequest
		case candidate.UnknownCut:
			status = http.StatusNotFound
		case candidate.OtherContent, candidate.VersionExists, candidate.CandidateClosed:
			status = http.StatusConflict
		}
	case errors.As(err, &tooLarge):
		status, failure = http.StatusRequestEntityTooLarge, Failure{Error: "too_large", Message: fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)}
	case errors.As(err, &invalid):
		status, failure = http.StatusUnprocessableEntity, Failure{Error: "invalid_document", Message: invalid.Message, Field: invalid.Field}
	case errors.As(err, &conflict):
		status, failure = http.StatusConflict, Failure{Error: "conflict", Message: conflict.Message}
	case errors.As(err, &bad):
		status, failure = http.StatusBadRequest, Failure{Error: "malformed", Message: bad.message}
	case errors.Is(err, candidate.ErrNotFound), errors.Is(err, cut.ErrNotFound), errors.Is(err, experiment.ErrNotFound), errors.Is(err, experiment.ErrNoVerdict), errors.Is(err, objstore.ErrNotFound):
		status, failure = http.StatusNotFound, Failure{Error: "not_found", Message: err.Error()}
	case errors.As(err, &transition), errors.Is(err, release.ErrLiveExists), errors.Is(err, release.ErrNoLive), errors.Is(err, release.ErrNothingToUse), errors.Is(err, release.ErrOtherBase), errors.Is(err, release.ErrPaused), errors.Is(err, release.ErrNotPaused), errors.Is(err, release.ErrHeldBack), errors.Is(err, release.ErrNoHoldBack), errors.Is(err, release.ErrNeverServed), errors.Is(err, schedule.ErrNotStarted), errors.Is(err, cut.ErrNotWaiting), errors.Is(err, adoption.ErrNone):
		status, failure = http.StatusConflict, Failure{Error: "conflict", Message: err.Error()}
	default:
		a.Log.Error("checkpoint: a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", "2")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	//nolint:errcheck // the client is gone
	json.NewEncoder(w).Encode(failure)
}

// who is the name of the token that the request came with.
func who(r *http.Request) string {
	if t, ok := auth.FromContext(r.Context()); ok {
		return t.Name
	}
	return "unknown"
}

// read decodes the body strictly: a misspelt field is an error, not a default.
func read(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return err
		}
		return badRequest{"the body is not what is expected here: " + err.Error()}
	}
	return nil
}

func (a *API) tx(ctx context.Context, fn func(pgx.Tx) error) error {
	return postgres.InTx(ctx, a.DB, fn)
}

func (a *API) cuts(r *http.Request) (any, error) {
	all, err := cut.List(r.Context(), a.DB)
	return map[string]any{"cuts": orEmpty(all)}, err
}

func (a *API) cut(r *http.Request) (any, error) {
	return ReadCut(r.Context(), a.DB, r.PathValue("id"), a.Now())
}

// goOnWithout is a person's decision that a cut, or the last one, no longer waits for a partition.
func (a *API) goOnWithout(r *http.Request) (any, error) {
	d := struct {
		Partition *int   `json:"partition"`
		Why       string `json:"why"`
	}{}
	if err := read(r, &d); err != nil {
		return nil, err
	}
	if d.Partition == nil || d.Why == "" {
		return nil, badRequest{"partition and why: both are needed, for the record"}
	}
	id := r.PathValue("id")
	err := a.tx(r.Context(), func(tx pgx.Tx) error {
		if id == "last" {
			switch last, err := cut.Last(r.Context(), tx); {
			case err != nil:
				return err
			case last == nil:
				return fmt.Errorf("%w: there is no cut yet", cut.ErrNotWaiting)
			default:
				id = last.ID
			}
		}
		return cut.GoOnWithout(r.Context(), tx, id, cut.Absence{Partition: *d.Partition, Who: who(r), Why: d.Why, At: a.Now()})
	})
	if err != nil {
		return nil, err
	}
	return ReadCut(r.Context(), a.DB, id, a.Now())
}

func (a *API) askForCut(r *http.Request) (any, error) {
	var asked string
	err := a.tx(r.Context(), func(tx pgx.Tx) (err error) {
		if _, err := release.Live(r.Context(), tx); err != nil {
			return err // nobody would ever serve the request
		}
		asked, err = schedule.Ask(r.Context(), tx, who(r))
		return err
	})
	return map[string]string{"asked_by": asked}, err
}

func (a *API) submit(r *http.Request) (c any, err error) {
	var s candidate.Submission
	if err := read(r, &s); err != nil {
		return nil, err
	}
	err = a.tx(r.Context(), func(tx pgx.Tx) error {
		c, err = candidate.Submit(r.Context(), tx, &s, who(r), a.Now())
		return err
	})
	return c, err
}

func (a *API) candidates(r *http.Request) (any, error) {
	all, err := candidate.List(r.Context(), a.DB)
	return map[string]any{"candidates": orEmpty(all)}, err
}

func (a *API) candidate(r *http.Request) (any, error) {
	c, err := candidate.Get(r.Context(), a.DB, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return CandidateReport{Candidate: c, Next: NextOf(c, a.Now())}, nil
}

func (a *API) verdict(r *http.Request) (any, error) {
	c, err := candidate.Get(r.Context(), a.DB, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return experiment.VerdictOf(r.Context(), a.DB, c.ID)
}

func (a *API) experiments(r *http.Request) (any, error) {
	all, err := experiment.List(r.Context(), a.DB)
	return map[string]any{"experiments": orEmpty(all)}, err
}

func (a *API) experiment(r *http.Request) (any, error) {
	return experiment.Get(r.Context(), a.DB, r.PathValue("id"))
}

// evidence is what the gate would say now, with everything it would rest on.
func (a *API) evidence(r *http.Request) (any, error) {
	e, err := experiment.Get(r.Context(), a.DB, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	policy, err := e.GatePolicy()
	if err != nil {
		return nil, err
	}
	evidence, err := experiment.Evidence(r.Context(), a.DB, e, a.Topic, a.Partitions, a.Now())
	if err != nil {
		return nil, err
	}
	return gate.Freeze(policy, evidence), nil
}

func (a *API) history(r *http.Request) (any, error) {
	all, err := release.History(r.Context(), a.DB)
	return map[string]any{"releases": orEmpty(all)}, err
}

// Status is what is live, what is in test and what comes next.
type Status struct {
	Now        time.Time              `json:"now"` // of the loop's clock
	Live       *release.Release       `json:"live"`
	Paused     *release.Pause         `json:"paused,omitempty"`
	Cut        *cut.Cut               `json:"cut,omitempty"`        // the last one
	Candidate  *candidate.Candidate   `json:"candidate,omitempty"`  // in flight, or the last one
	Experiment *experiment.Experiment `json:"experiment,omitempty"` // of that candidate
	// Next is the step that the cut or the candidate waits for, with its deadline.
	Next    *Deadline  `json:"next,omitempty"`
	NextCut *time.Time `json:"next_cut,omitempty"` // by rows: at the latest
	ByRows  *ByRows    `json:"by_rows,omitempty"`  // if cuts are due by rows
}

// ByRows is how far it is to the next cut where cuts are due by rows.
type ByRows struct {
	Waiting  int64     `json:"waiting"` // rows of the live version that no cut has
	At       int64     `json:"at"`      // so many make one due …
	Earliest time.Time `json:"earliest"`
}

// String reads "at 2000 rows (312 wait), not before 2026-03-02 07:00".
func (b ByRows) String() string {
	return fmt.Sprintf("at %d rows (%d wait), not before %s", b.At, b.Waiting, b.Earliest.UTC().Format("2006-01-02 15:04"))
}

func (a *API) status(r *http.Request) (any, error) {
	return ReadStatus(r.Context(), a.DB, a.Topic, a.Now())
}

// ReadStatus reads where everything stands.
func ReadStatus(ctx context.Context, db *pgxpool.Pool, topic string, now time.Time) (*Status, error) {
	s := &Status{Now: now.UTC()}
	return s, pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		var err error
		if s.Live, err = release.Live(ctx, tx); err != nil && !errors.Is(err, release.ErrNoLive) {
			return err
		}
		if s.Paused, err = release.Paused(ctx, tx); err != nil {
			return err
		}
		if s.Cut, err = cut.Last(ctx, tx); err != nil {
			return err
		}
		all, err := candidate.List(ctx, tx)
		if err != nil {
			return err
		}
		if len(all) > 0 {
			s.Candidate = &all[len(all)-1]
			if s.Experiment, err = experiment.OfCandidate(ctx, tx, s.Candidate.ID); err != nil {
				return err
			}
		}
		if s.Cut != nil && s.Cut.State.Open() {
			s.Next = nextOfCut(s.Cut, now)
		} else if s.Candidate != nil {
			s.Next = NextOf(s.Candidate, now)
		}
		plan, err := schedule.Load(ctx, tx, now)
		if errors.Is(err, schedule.ErrNotStarted) {
			return nil
		}
		if err != nil {
			return err
		}
		next := plan.Upcoming(now)
		s.NextCut = &next
		if plan.ByRows.Rows > 0 && s.Live != nil {
			s.ByRows = &ByRows{At: plan.ByRows.Rows, Earliest: plan.Earliest()}
			s.ByRows.Waiting, err = cut.Waiting(ctx, tx, topic, s.Live.Version)
		}
		return err
	})
}

// Move is what a person asks of the live pointer.
type Move struct {
	Action    release.Action `json:"action"`              // init, promote, rollback
	Version   string         `json:"version,omitempty"`   // of init
	Candidate string         `json:"candidate,omitempty"` // of promote
	Why       string         `json:"why,omitempty"`       // of promote and rollback
}

func (a *API) release(r *http.Request) (any, error) {
	var m Move
	if err := read(r, &m); err != nil {
		return nil, err
	}
	if m.Why == "" && m.Action != release.ActionInit {
		return nil, badRequest{"why is missing: a move of the live pointer needs a reason on record"}
	}
	var live *release.Release
	err := a.tx(r.Context(), func(tx pgx.Tx) (err error) {
		switch m.Action {
		case release.ActionInit:
			if r := candidate.CheckVersion(m.Version); r != nil {
				return r
			}
			err = release.Init(r.Context(), tx, m.Version, who(r), a.Now())
		case release.ActionPromote:
			err = PromoteHeld(r.Context(), tx, m.Candidate, who(r), m.Why, a.Now())
		case release.ActionRollback:
			_, err = release.Rollback(r.Context(), tx, who(r), m.Why, a.Now())
		default:
			return badRequest{fmt.Sprintf("action %q: init, promote or rollback", m.Action)}
		}
		if err == nil {
			live, err = release.Live(r.Context(), tx)
		}
		return err
	})
	return live, err
}

// orEmpty makes an empty list of none: [] in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *API) manifest(w http.ResponseWriter, r *http.Request) {
	k, err := cut.Get(r.Context(), a.DB, r.PathValue("id"))
	if err == nil && k.State != cut.Packed {
		err = fmt.Errorf("%w: %s is %s and has no manifest", cut.ErrNotFound, k.ID, k.State)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.object(w, r, k.ManifestKey, k.ManifestSHA256, "application/json")
}

func (a *API) part(w http.ResponseWriter, r *http.Request) {
	parts, err := cut.Parts(r.Context(), a.DB, r.PathValue("id"))
	n, bad := strconv.Atoi(r.PathValue("n"))
	if err == nil && (bad != nil || n < 0 || n >= len(parts)) {
		err = fmt.Errorf("%w: %s has no part %q", cut.ErrNotFound, r.PathValue("id"), r.PathValue("n"))
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	a.object(w, r, parts[n].Key, parts[n].SHA256, "application/vnd.apache.arrow.file")
}

// object serves an immutable object, or a range of it.
func (a *API) object(w http.ResponseWriter, r *http.Request, key, sum, contentType string) {
	size, err := a.Store.Stat(r.Context(), key)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	body := objstore.NewReader(r.Context(), a.Store, key, size)
	defer body.Close()
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("ETag", `"`+sum+`"`)
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, body)
}
