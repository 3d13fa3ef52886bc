package checkpoint

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"millrace/checkpoint/candidate"
)

// fuse ends a context at the n-th query: before it is sent, or after it was answered.
type fuse struct {
	left   int
	after  bool
	cancel context.CancelFunc
}

func (f *fuse) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if f.cancel != nil && !f.after {
		f.burn()
	}
	return ctx
}

func (f *fuse) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	if f.cancel != nil && f.after {
		f.burn()
	}
}

func (f *fuse) burn() {
	if f.left--; f.left == 0 {
		f.cancel()
	}
}

// run leads a world through a cycle by passes of step.
func (w *world) run(step func(hours, minutes int)) {
	w.interval()
	step(-1, 0)
	step(0, 0)
	w.submit(w.submission("cut-1", "cand-1"), at(0, 30))
	step(0, 31)
	step(1, 15)
	w.traffic("exp-1", .003)
	w.committed(at(4, 40))
	step(4, 41)
}

// TestACrashAtEveryQuery: whatever query the process dies at, before or after it, the passes of its successors end in
// the very same tables and objects.
func TestACrashAtEveryQuery(t *testing.T) {
	t.Parallel()
	undisturbed := setup(t)
	c := undisturbed.control()
	undisturbed.run(func(h, m int) { undisturbed.step(c, h, m) })
	require.Equal(t, candidate.Promoted, undisturbed.state("cand-1"))

	for name, after := range map[string]bool{"before it": false, "after it": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			f := &fuse{after: after}
			cfg := w.pool.Config().Copy()
			cfg.ConnConfig.Tracer = f
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			crashes := 0
			w.run(func(h, m int) {
				for n := 1; ; n++ {
					ctx, cancel := context.WithCancel(t.Context())
					f.left, f.cancel = n, cancel
					deps := w.deps()
					deps.DB = pool
					c, err := New(w.cfg, deps)
					require.NoError(t, err)
					err = c.Step(ctx, at(h, m))
					f.cancel = nil
					cancel()
					if f.left > 0 {
						require.NoError(t, err)
						return
					}
					crashes++
				}
			})
			require.Equal(t, undisturbed.whole(), w.whole())
			require.Greater(t, crashes, 50)
			t.Logf("%d crashes", crashes)
		})
	}
}
