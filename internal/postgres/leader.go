package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrFenced says that a leader's term is over: somebody else may lead, so nothing of this term may be written.
var ErrFenced = errors.New("fenced: the term is over")

// Elect makes owner the leader of a job, for a lease by the server's clock, if nobody else's lease runs. Every election
// starts a new term, also one of the same owner, who is thereby fenced against a former self. Owners' names must differ.
//
// The owner must count the lease from before this call, by its own monotonic clock, and stop before it has run out.
func Elect(ctx context.Context, pool *pgxpool.Pool, name, owner string, lease time.Duration) (term int64, ok bool, err error) {
	err = pool.QueryRow(ctx, `
		insert into leader (name, owner, term, lease_until) values ($1, $2, 1, now() + $3)
		on conflict (name) do update set owner = $2, term = leader.term + 1, lease_until = now() + $3
			where leader.lease_until < now() or leader.owner = $2
		returning term`, name, owner, lease).Scan(&term)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("electing the leader of %s: %w", name, err)
	}
	return term, true, nil
}

// Renew lengthens a term's lease, from now on. If the term is over, or its lease has run out, it is ErrFenced.
func Renew(ctx context.Context, pool *pgxpool.Pool, name string, term int64, lease time.Duration) error {
	tag, err := pool.Exec(ctx, `update leader set lease_until = now() + $3
		where name = $1 and term = $2 and lease_until >= now()`, name, term, lease)
	if err != nil {
		return fmt.Errorf("renewing term %d of %s: %w", term, name, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%s, term %d: %w", name, term, ErrFenced)
	}
	return nil
}

// CheckTerm fails with ErrFenced if the term is over. It belongs into every transaction of a leader: it holds the row,
// so that no election can come between the check and the commit. (So a renewal waits too: keep the transactions shorter
// than the lease.)
func CheckTerm(ctx context.Context, tx pgx.Tx, name string, term int64) error {
	var found bool
	err := tx.QueryRow(ctx, "select true from leader where name = $1 and term = $2 for share", name, term).Scan(&found)
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("%s, term %d: %w", name, term, ErrFenced)
	}
	if err != nil {
		return fmt.Errorf("checking term %d of %s: %w", term, name, err)
	}
	return nil
}

// Resign ends a term's lease, so that the next leader needn't wait for it. A term that is over already is no error.
func Resign(ctx context.Context, pool *pgxpool.Pool, name string, term int64) error {
	// The row stays: terms never count backwards. It is older than any now() that an election may have begun with.
	_, err := pool.Exec(ctx, `update leader set owner = '', lease_until = '-infinity' where name = $1 and term = $2`, name, term)
	if err != nil {
		return fmt.Errorf("resigning from term %d of %s: %w", term, name, err)
	}
	return nil
}

// Vacate ends the terms of all jobs. It is for whoever knows that their leaders are dead and so needn't wait for their
// leases. If one lives all the same it is fenced by the next election.
func Vacate(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, `update leader set owner = '', lease_until = '-infinity'`)
	if err != nil {
		return fmt.Errorf("ending all terms: %w", err)
	}
	return nil
}
