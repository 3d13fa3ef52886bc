package adoption

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/checkpoint/experiment"
	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/event"
	"millrace/schemas/rewardspec"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// desk is where a reward engineer's requests come in.
type desk struct {
	t     *testing.T
	pool  *pgxpool.Pool
	store objstore.Store
	now   time.Time
}

// setup has the shipped spec in force.
func setup(t *testing.T) *desk {
	t.Helper()
	store, err := objstore.NewFolder(t.TempDir())
	require.NoError(t, err)
	d := &desk{t, postgrestest.New(t), store, noon}
	spec, document := rewardspec.Default()
	digest := arrowfile.SHA256(document)
	require.NoError(t, store.PutIfAbsent(t.Context(), objstore.DocumentKey(digest), document))
	d.propose(func(c *event.ConfigAdopted) { c.RewardSpecDigest, c.RewardSpecName, c.BatchRows = digest, spec.ID(), 7 })
	return d
}

func (d *desk) propose(change func(*event.ConfigAdopted)) {
	d.t.Helper()
	require.NoError(d.t, d.tx(func(tx pgx.Tx) error {
		return experiment.Propose(d.t.Context(), tx, d.now, "setup", func(c *event.ConfigAdopted) error { change(c); return nil })
	}))
}

func (d *desk) tx(fn func(pgx.Tx) error) error { return postgres.InTx(d.t.Context(), d.pool, fn) }

func (d *desk) adopt(q Request) (*InForce, error) {
	d.now = d.now.Add(time.Minute)
	return Adopt(d.t.Context(), d.pool, d.store, d.tx, &q, "ann", d.now)
}

func document(change ...string) string {
	_, text := rewardspec.Default()
	return strings.NewReplacer(change...).Replace(string(text))
}

func baseline(t *testing.T, version string, value float64) string {
	t.Helper()
	b := rewardspec.BaselineV0()
	b.Version, b.Global.Value = version, value
	text, err := b.Encode()
	require.NoError(t, err)
	return string(text)
}

func TestAdoptedTogether(t *testing.T) {
	t.Parallel()
	d := setup(t)
	first, err := Current(t.Context(), d.pool, d.store)
	require.NoError(t, err)
	require.Equal(t, "composer@1", first.Spec)
	require.Equal(t, "v0", first.Baseline)

	spec, base := document("version: 1", "version: 2", "weight: -0.15", "weight: -0.2"), baseline(t, "b1", .25)
	q := Request{Spec: spec, Baseline: base, ClassifierVersion: "judge/m/1", Why: "effort was too cheap", Replaces: first.SpecDigest}
	got, err := d.adopt(q)
	require.NoError(t, err)
	require.Equal(t, &InForce{
		Seq: 2, Spec: "composer@2", SpecDigest: arrowfile.SHA256([]byte(spec)), Baseline: "b1", BaselineDigest: arrowfile.SHA256([]byte(base)),
		ClassifierVersion: "judge/m/1", AdoptedAt: d.now, Why: "composer@2 by ann: effort was too cheap",
	}, got)
	documents, err := Read(t.Context(), d.store, *got)
	require.NoError(t, err)
	require.Equal(t, &Documents{spec, base}, documents)
	c, err := experiment.Config(t.Context(), d.pool)
	require.NoError(t, err)
	require.EqualValues(t, 7, c.GetBatchRows(), "the rest of the configuration stays")

	q.Replaces = ""
	again, err := d.adopt(q)
	require.NoError(t, err)
	require.Equal(t, got, again, "the same again changes nothing")

	d.propose(func(c *event.ConfigAdopted) { c.BatchRows = 8 })
	_, err = d.adopt(Request{Spec: spec, Baseline: baseline(t, "b2", .3), Why: "a newer baseline"})
	require.NoError(t, err)
	all, err := History(t.Context(), d.pool, d.store)
	require.NoError(t, err)
	var told []string
	for _, f := range all {
		told = append(told, f.Spec+" "+f.Baseline)
	}
	require.Equal(t, []string{"composer@1 v0", "composer@2 b1", "composer@2 b2"}, told, "other configurations are no change of the reward")
}

func TestRefused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	second := document("version: 1", "version: 2")
	_, err := d.adopt(Request{Spec: second, Baseline: baseline(t, "b1", .1), Why: "x"})
	require.NoError(t, err)
	d.propose(func(c *event.ConfigAdopted) {
		c.Experiments = []*event.Experiment{{Id: "exp-1", EndsAt: timestamppb.New(noon.Add(time.Hour))}}
	})
	later := document("version: 1", "version: 3", "settle_after: 20m", "settle_after: 30m")
	for name, c := range map[string]struct {
		q    Request
		want string
	}{
		"no spec":                         {Request{Spec: "kind: RewardSpec", Why: "x"}, "components"},
		"a block left out":                {Request{Spec: document("undelivered: {value: -0.8}", "#"), Why: "x"}, `"undelivered" is missing`},
		"no reason":                       {Request{Spec: second, Why: " "}, "why is missing"},
		"no baseline":                     {Request{Spec: second, Baseline: "{}", Why: "x"}, "baseline line 1"},
		"other content under the version": {Request{Spec: document("version: 1", "version: 2", "0.7 *", "0.6 *"), Why: "x"}, "raise its version"},
		"another baseline of the version": {Request{Spec: second, Baseline: baseline(t, "b1", .2), Why: "x"}, "baseline b1 was adopted before with other content"},
		"a document that claims to be v0": {Request{Spec: second, Baseline: baseline(t, "v0", .2), Why: "x"}, "baseline v0 was adopted before"},
		"somebody was faster":             {Request{Spec: second, Why: "x", Replaces: "old"}, "look again"},
		"settling changes during a test":  {Request{Spec: later, Why: "x"}, "exp-1 runs until 2026-03-01T13:00:00Z, and settle_after would change from 20m0s to 30m0s"},
	} {
		_, err := d.adopt(c.q)
		require.ErrorContains(t, err, c.want, name)
		var invalid *Invalid
		var conflict *Conflict
		require.True(t, errors.As(err, &invalid) || errors.As(err, &conflict), name)
		current, err := Current(t.Context(), d.pool, d.store)
		require.NoError(t, err)
		require.Equal(t, "composer@2", current.Spec, name)
		require.Equal(t, "b1", current.Baseline, name)
	}
	got, err := d.adopt(Request{Spec: later, Why: "x", DuringTest: true})
	require.NoError(t, err)
	require.Equal(t, "composer@3", got.Spec)
}
