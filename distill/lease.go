package distill

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Errors that end a worker's hold on a partition. Everything that was not committed is dropped, and nothing of it
// was visible.
var (
	ErrFenced    = errors.New("fenced: another worker has taken the partition over")
	ErrLeaseLost = errors.New("the lease may have run out")
)

// Lease is the right to commit for one partition, and the position it starts from. The epoch fences it: whoever
// takes over adds one, and from then on this lease's commits fail.
type Lease struct {
	Topic     string
	Partition int32
	Epoch     int64

	CommittedOffset int64 // moves with our commits
	LowWatermark    int64
	StateKey        string
	StateSHA256     string
	LogDigest       string
	TurnsOpened     int64
	TurnsOpen       map[string]int64

	trusted    atomic.Int64 // by our own monotonic clock: past this the owner stops by itself
	committing atomic.Bool  // a transaction of ours is under way
	working    atomic.Int64 // when the server was last seen at that transaction
}

// started is the origin of our monotonic clock.
var started = time.Now()

// prolong trusts the lease for most of a term after it was asked for.
func (l *Lease) prolong(asked time.Time, term time.Duration) {
	until := int64(asked.Sub(started) + term - term/4)
	for before := l.trusted.Load(); before < until; before = l.trusted.Load() {
		if l.trusted.CompareAndSwap(before, until) {
			return
		}
	}
}

// Trusted fails once the lease may have run out by our own clock, with time to spare for a commit under way.
func (l *Lease) Trusted() error {
	if int64(time.Since(started)) > l.trusted.Load() {
		return fmt.Errorf("partition %d: %w", l.Partition, ErrLeaseLost)
	}
	return nil
}

// begin says that a commit begins; end that it is over.
func (l *Lease) begin() {
	l.working.Store(int64(time.Since(started)))
	l.committing.Store(true)
}

func (l *Lease) end() { l.committing.Store(false) }

// stalled says why the commit under way is not worth waiting for: the lease has run out, because the server no longer
// answers, or for a whole term the server has not been at our transaction, so that its answer must be lost. A
// transaction that only takes long is neither.
func (l *Lease) stalled(term time.Duration) error {
	if err := l.Trusted(); err != nil {
		return err
	}
	if idle := time.Since(started) - time.Duration(l.working.Load()); idle > term {
		return fmt.Errorf("partition %d: no answer to the commit, and the server has not been at it for %s", l.Partition, idle.Round(time.Millisecond))
	}
	return nil
}

// leases shares a topic's partitions among the workers by rows in Postgres.
type leases struct {
	pool  *pgxpool.Pool
	topic string
	owner string
	term  time.Duration
}

// share is how many partitions this worker should hold: all of them divided by the workers seen lately.
func (l *leases) share(ctx context.Context) (int, error) {
	var n int
	err := l.pool.QueryRow(ctx, `with me as (
			insert into worker (name, seen_at) values ($1, now()) on conflict (name) do update set seen_at = now())
		select ceil(count(*)::numeric / greatest(1, (
			select count(*) from worker where name <> $1 and seen_at > now() - make_interval(secs => $3)) + 1))::int
		from partition where topic = $2`, l.owner, l.topic, l.term.Seconds()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting the workers: %w", err)
	}
	return n, nil
}

// leave takes this worker out of the count.
func (l *leases) leave(ctx context.Context) error {
	_, err := l.pool.Exec(ctx, `delete from worker where name = $1`, l.owner)
	return err
}

// claim takes one partition whose lease is free or has run out; ErrNoRows if there is none.
func (l *leases) claim(ctx context.Context) (*Lease, error) {
	return l.take(ctx, `update partition set owner = $2, lease_until = now() + make_interval(secs => $3), epoch = epoch + 1
		where topic = $1 and partition = (
			select partition from partition
			where topic = $1 and halted is null and (owner is null or lease_until < now())
			order by partition limit 1 for update skip locked)
		returning `+leaseColumns, l.topic, l.owner, l.term.Seconds())
}

// reclaim takes the partition again from ourselves. The row's lock waits for a transaction of ours whose outcome we
// don't know, so what is read here is the truth.
func (l *leases) reclaim(ctx context.Context, old *Lease) (*Lease, error) {
	lease, err := l.take(ctx, `update partition set lease_until = now() + make_interval(secs => $3), epoch = epoch + 1
		where topic = $1 and owner = $2 and partition = $4 and epoch = $5
		returning `+leaseColumns, l.topic, l.owner, l.term.Seconds(), old.Partition, old.Epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrFenced
	}
	return lease, err
}

const leaseColumns = `partition, epoch, committed_offset, low_watermark, coalesce(state_key, ''),
	coalesce(state_sha256, ''), coalesce(log_digest, ''), turns_opened, turns_open`

func (l *leases) take(ctx context.Context, sql string, args ...any) (*Lease, error) {
	asked := time.Now()
	lease := &Lease{Topic: l.topic}
	err := l.pool.QueryRow(ctx, sql, args...).Scan(&lease.Partition, &lease.Epoch, &lease.CommittedOffset,
		&lease.LowWatermark, &lease.StateKey, &lease.StateSHA256, &lease.LogDigest, &lease.TurnsOpened, &lease.TurnsOpen)
	if err != nil {
		return nil, err
	}
	lease.prolong(asked, l.term)
	return lease, nil
}

// renew prolongs the lease; ErrFenced if somebody has taken it over. It doesn't wait for a transaction that holds the
// row: if that is our own commit, nobody can take the partition over before it ends, so the lease is good.
func (l *leases) renew(ctx context.Context, lease *Lease) error {
	asked, committing := time.Now(), lease.committing.Load()
	var ours, renewed bool
	err := l.pool.QueryRow(ctx, `with free as (
			select from partition where topic = $2 and partition = $3 and epoch = $4 for update skip locked
		), renewed as (
			update partition set lease_until = now() + make_interval(secs => $1)
			where topic = $2 and partition = $3 and epoch = $4 and exists (select from free) returning 1)
		select exists (select from partition where topic = $2 and partition = $3 and epoch = $4), exists (select from renewed)`,
		l.term.Seconds(), lease.Topic, lease.Partition, lease.Epoch).Scan(&ours, &renewed)
	if err != nil {
		return fmt.Errorf("renewing the lease of partition %d: %w", lease.Partition, err)
	}
	switch {
	case !ours:
		return fmt.Errorf("partition %d: %w", lease.Partition, ErrFenced)
	case !renewed && committing:
		lease.working.Store(int64(asked.Sub(started)))
		lease.prolong(asked, l.term)
	case renewed:
		lease.prolong(asked, l.term)
	}
	return nil
}

// release gives the partition back at once. Failing to is harmless: the lease runs out.
func (l *leases) release(ctx context.Context, lease *Lease) error {
	_, err := l.pool.Exec(ctx, `update partition set owner = null, lease_until = null
		where topic = $1 and partition = $2 and epoch = $3`, lease.Topic, lease.Partition, lease.Epoch)
	return err
}

// Vacate ends all leases of a topic and forgets its workers. It is for whoever knows that they are dead, since the log
// is his alone, and so needn't wait for the leases to run out. If one lives all the same nothing is lost: the next
// claim fences it, and it counts itself again. A commit that a dead worker's connection has under way is waited for.
func Vacate(ctx context.Context, pool *pgxpool.Pool, topic string) error {
	_, err := pool.Exec(ctx, `with workers as (delete from worker)
		update partition set owner = null, lease_until = null where topic = $1 and owner is not null`, topic)
	if err != nil {
		return fmt.Errorf("ending the leases of %s: %w", topic, err)
	}
	return nil
}

// halt stops the partition for everybody, with the reason on record, until a person resumes it.
func (l *leases) halt(ctx context.Context, lease *Lease, reason string) error {
	_, err := l.pool.Exec(ctx, `update partition set halted = $4, owner = null, lease_until = null
		where topic = $1 and partition = $2 and epoch = $3`, lease.Topic, lease.Partition, lease.Epoch, reason)
	if err != nil {
		return fmt.Errorf("halting partition %d: %w", lease.Partition, err)
	}
	return nil
}
