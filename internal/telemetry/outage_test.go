package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		plain, err := NewLogger(&text, "text", "warn")
		require.NoError(t, err)
		refused, full := errors.New("refused"), errors.New("full")
		var databaseAway, storeAway atomic.Bool
		probe := func(away *atomic.Bool, err error) func(context.Context) error {
			return func(context.Context) error {
				if away.Load() {
					return err
				}
				return nil
			}
		}
		logger, outages := Watch(plain.With("role", "up"),
			Place{"Postgres", "db:5432", func(err error) bool { return errors.Is(err, refused) }, probe(&databaseAway, refused)},
			Place{"the object store", "/data", func(err error) bool { return errors.Is(err, full) }, probe(&storeAway, full)})
		defer outages.Close()
		said := func() []string {
			defer text.Reset()
			return strings.Split(strings.TrimSpace(text.String()), "\n")
		}

		logger.Warn("a passing trouble", "error", refused)
		require.Len(t, said(), 1, "Postgres answers: the part's own line stands")

		databaseAway.Store(true)
		var parts sync.WaitGroup
		for n := range 64 {
			parts.Go(func() { logger.With("partition", n).Error("can't commit", "error", fmt.Errorf("commit: %w", refused)) })
		}
		parts.Wait()
		logger.Error("a pass failed", "error", errors.Join(refused, fmt.Errorf("cuts: %w", refused)))
		lines := said()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], `level=ERROR msg="Postgres is away; what needs it waits, and goes on by itself when it is back" role=up at=db:5432 error=refused`)

		logger.Error("a pass failed", "error", errors.Join(refused, errors.New("something else")))
		require.Contains(t, said()[0], "something else", "only what is about the outage is left out")
		storeAway.Store(true)
		logger.Warn("can't write", "error", full)
		require.Contains(t, said()[0], "the object store is away")

		synctest.Wait() // the look at Postgres has seen it away
		databaseAway.Store(false)
		time.Sleep(probePause)
		synctest.Wait()
		lines = said()
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], `level=WARN msg="Postgres is back" role=up after=500ms`)
		logger.Warn("a passing trouble", "error", refused)
		require.Contains(t, said()[0], "a passing trouble")
	})
}
