package feed

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// news wakes the readers that wait for new shards.
type news struct {
	mu   sync.Mutex
	next chan struct{} // closed when there is something new
}

func newNews() *news { return &news{next: make(chan struct{})} }

// wait gives a channel that is closed at the next news. Take it before looking, so that none is missed.
func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.next
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	close(n.next)
	n.next = make(chan struct{})
}

// listen passes on what the publisher notifies, until ctx ends. It holds one connection. While the database is away
// readers look by themselves every few seconds.
func (n *news) listen(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) {
	for ctx.Err() == nil {
		err := n.listenOnce(ctx, pool)
		if ctx.Err() != nil {
			break
		}
		log.Warn("feed: not told of new shards, readers look every few seconds", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

func (n *news) listenOnce(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("listening for new shards: %w", err)
	}
	own := conn.Hijack() // it listens: it can't go back among the others
	defer own.Close(context.WithoutCancel(ctx))
	if _, err := own.Exec(ctx, `listen `+channel); err != nil {
		return fmt.Errorf("listening for new shards: %w", err)
	}
	n.tell() // what happened before it listened
	for {
		if _, err := own.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("listening for new shards: %w", err)
		}
		n.tell()
	}
}
