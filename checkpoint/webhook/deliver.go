package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"millrace/checkpoint/audit"
)

// Delivery is one entry on its way to one endpoint.
type Delivery struct {
	Endpoint    string     `json:"endpoint"`
	Event       string     `json:"event"` // id in the audit log
	Type        string     `json:"type"`
	Attempts    int        `json:"attempts"`
	NextAt      *time.Time `json:"next_at,omitempty"` // none: delivered, or given up
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	Status      *int       `json:"status,omitempty"` // of the last answer
	Error       string     `json:"error,omitempty"`
}

// Database is a pool, or a transaction.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Deliveries are the newest so many, of one endpoint or, without a name, of all.
func Deliveries(ctx context.Context, db Database, endpoint string, limit int) ([]Delivery, error) {
	rows, err := db.Query(ctx, `
		select d.endpoint, d.event, d.type, d.attempts, d.next_at, d.delivered_at, d.status, d.error from webhook_delivery d
		where $1 = '' or d.endpoint = $1 order by coalesce(d.delivered_at, d.next_at) desc nulls last, d.event limit $2`, endpoint, limit)
	if err != nil {
		return nil, fmt.Errorf("read the deliveries: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d Delivery, err error) {
		err = row.Scan(&d.Endpoint, &d.Event, &d.Type, &d.Attempts, &d.NextAt, &d.DeliveredAt, &d.Status, &d.Error)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read the deliveries: %w", err)
	}
	return out, nil
}

// Redeliver lets a delivery begin anew. It says whether there is one.
func Redeliver(ctx context.Context, tx pgx.Tx, endpoint, event string, now time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `update webhook_delivery set next_at = $3, attempts = 0, delivered_at = null where endpoint = $1 and event = $2`, endpoint, event, now.UTC())
	if err != nil {
		return false, fmt.Errorf("deliver %s to %s again: %w", event, endpoint, err)
	}
	return tag.RowsAffected() > 0, nil
}

// waits are those after each failed attempt, as Standard Webhooks proposes them; after the last it is given up.
var waits = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	answerFor = 10 * time.Second // an endpoint has to answer in
	atOnce    = 8                // endpoints asked side by side
	perPass   = 200              // deliveries in one pass
)

// Sender delivers.
type Sender struct {
	DB        Database
	Write     func(context.Context, func(pgx.Tx) error) error // a transaction that checks the leader's term
	Endpoints []Endpoint
	Client    *http.Client // nil: one that follows no redirects
}

// Pass writes down what is to be delivered since the last pass, and delivers what is due. What an endpoint does is never an error: it stands in the
// delivery. moved says whether anything was delivered or tried.
func (s *Sender) Pass(ctx context.Context, now time.Time) (moved bool, err error) {
	if len(s.Endpoints) == 0 {
		return false, nil
	}
	if err := s.enqueue(ctx, now); err != nil {
		return false, err
	}
	due, err := s.due(ctx, now)
	if err != nil {
		return false, err
	}
	tried := make([][]attempt, len(s.Endpoints))
	var work errgroup.Group
	work.SetLimit(atOnce)
	for i := range s.Endpoints {
		work.Go(func() error {
			tried[i] = s.sendAll(ctx, &s.Endpoints[i], due, now)
			return nil
		})
	}
	_ = work.Wait()
	all := slices.Concat(tried...)
	if len(all) == 0 {
		return false, ctx.Err()
	}
	// What was sent is recorded also if the time of the pass is over: else it would be sent again.
	return true, s.Write(context.WithoutCancel(ctx), func(tx pgx.Tx) error {
		for _, a := range all {
			if err := a.record(context.WithoutCancel(ctx), tx, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// sendAll sends what is due at one endpoint, in order, until the first failure: an endpoint that is away is asked once in a
// pass.
func (s *Sender) sendAll(ctx context.Context, e *Endpoint, due []sending, now time.Time) (tried []attempt) {
	for _, d := range due {
		if d.Endpoint != e.Name || ctx.Err() != nil {
			continue
		}
		a := s.send(ctx, e, d, now)
		if ctx.Err() != nil {
			return tried // it was not the endpoint that was too slow
		}
		tried = append(tried, a)
		if a.failed != "" {
			return tried
		}
	}
	return tried
}

// enqueue writes a delivery for every entry since the endpoint was first seen that has none yet.
func (s *Sender) enqueue(ctx context.Context, now time.Time) error {
	return s.Write(ctx, func(tx pgx.Tx) error {
		for _, e := range s.Endpoints {
			if _, err := tx.Exec(ctx, `insert into webhook_endpoint (name, since) values ($1, $2) on conflict do nothing`, e.Name, now.UTC()); err != nil {
				return fmt.Errorf("register webhook %s: %w", e.Name, err)
			}
			rows, err := tx.Query(ctx, `
				select a.id, a.at, a.who, a.type, a.object, a.why, a.detail from audit a join webhook_endpoint w on w.name = $1
				where a.at >= w.since and not exists (select 1 from webhook_delivery d where d.endpoint = $1 and d.event = a.id) order by a.at, a.id`, e.Name)
			if err != nil {
				return fmt.Errorf("read what is new for webhook %s: %w", e.Name, err)
			}
			entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (x audit.Entry, err error) {
				err = row.Scan(&x.ID, &x.At, &x.Who, &x.Type, &x.Object, &x.Why, &x.Detail)
				x.At = x.At.UTC()
				return x, err
			})
			if err != nil {
				return fmt.Errorf("read what is new for webhook %s: %w", e.Name, err)
			}
			for _, x := range entries {
				if !e.wants(x.Type) {
					continue
				}
				if err := enqueueOne(ctx, tx, e.Name, x, now); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Message is the body of a delivery.
type Message struct {
	Type      string      `json:"type"`
	Timestamp time.Time   `json:"timestamp"` // of what happened
	Data      audit.Entry `json:"data"`
}

func enqueueOne(ctx context.Context, tx pgx.Tx, endpoint string, x audit.Entry, now time.Time) error {
	body, err := json.Marshal(Message{Type: x.Type, Timestamp: x.At, Data: x})
	if err != nil {
		return fmt.Errorf("encode %s for webhook %s: %w", x.ID, endpoint, err)
	}
	_, err = tx.Exec(ctx, `insert into webhook_delivery (endpoint, event, type, body, next_at) values ($1, $2, $3, $4, $5)`, endpoint, x.ID, x.Type, string(body), now.UTC())
	if err != nil {
		return fmt.Errorf("write down that %s goes to webhook %s: %w", x.ID, endpoint, err)
	}
	return nil
}

// sending is a delivery with what is sent.
type sending struct {
	Delivery
	body string
}

func (s *Sender) due(ctx context.Context, now time.Time) ([]sending, error) {
	var names []string
	for _, e := range s.Endpoints {
		names = append(names, e.Name)
	}
	rows, err := s.DB.Query(ctx, `select endpoint, event, type, attempts, body from webhook_delivery where next_at <= $1 and endpoint = any($2) order by attempts, next_at, position limit $3`,
		now.UTC(), names, perPass)
	if err != nil {
		return nil, fmt.Errorf("read which deliveries are due: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d sending, err error) {
		err = row.Scan(&d.Endpoint, &d.Event, &d.Type, &d.Attempts, &d.body)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("read which deliveries are due: %w", err)
	}
	return out, nil
}

// attempt is what became of one try.
type attempt struct {
	sending
	status *int
	failed string // "" if it was delivered
}

func (s *Sender) send(ctx context.Context, endpoint *Endpoint, d sending, now time.Time) attempt {
	a := attempt{sending: d}
	ctx, cancel := context.WithTimeout(ctx, answerFor)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint.URL, bytes.NewReader([]byte(d.body)))
	if err == nil {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", "millrace")
		err = sign(request.Header, endpoint.Secret, d.Event, now, []byte(d.body))
	}
	if err != nil {
		a.failed = err.Error()
		return a
	}
	client := s.Client
	if client == nil {
		client = plain
	}
	response, err := client.Do(request)
	if err != nil {
		a.failed = err.Error()
		return a
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10) // so that the connection can be used again
	a.status = &response.StatusCode
	if response.StatusCode < 200 || response.StatusCode > 299 {
		a.failed = "answered " + response.Status
	}
	return a
}

// plain follows no redirects: what is signed for one place is not for another.
var plain = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func (a attempt) record(ctx context.Context, tx pgx.Tx, now time.Time) error {
	var next, delivered *time.Time
	switch at := now.UTC(); {
	case a.failed == "":
		delivered = &at
	case a.Attempts < len(waits):
		at = at.Add(waits[a.Attempts])
		next = &at
	}
	_, err := tx.Exec(ctx, `update webhook_delivery set attempts = attempts + 1, next_at = $3, delivered_at = $4, status = $5, error = $6 where endpoint = $1 and event = $2`,
		a.Endpoint, a.Event, next, delivered, a.status, a.failed)
	if err != nil {
		return fmt.Errorf("record the delivery of %s to %s: %w", a.Event, a.Endpoint, err)
	}
	return nil
}
