//go:build kafka4

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"google.golang.org/protobuf/types/known/timestamppb"

	"millrace/distill"
	"millrace/distill/turn"
	"millrace/feed"
	"millrace/ingest"
	"millrace/internal/arrowfile"
	"millrace/internal/eventlog"
	"millrace/internal/objstore"
	"millrace/internal/postgres/postgrestest"
	"millrace/schemas/event"
	"millrace/schemas/manifest"
	"millrace/schemas/rewardspec"
	"millrace/sim"
	"millrace/sim/drive"
)

const (
	kafkaPartitions = 8
	kafkaLease      = 5 * time.Second
	lateness        = 2 * time.Second
	maxTurn         = 40 * time.Second
	trafficFor      = 75 * time.Second
	base            = "base-0"
)

// TestKafka4Roles runs the four roles as processes against a real Kafka 4, disturbs them under live traffic, and then
// holds what they made against what was sent, against the log, and against an undisturbed worker over the same log.
func TestKafka4Roles(t *testing.T) {
	w := setupWorld(t)
	w.refusals()
	w.migrate()

	gateway := []*process{w.start("ingest 1", "ingest"), w.start("ingest 2", "ingest")}
	term := "--lease-term=" + kafkaLease.String()
	workers := []*process{w.start("distill 1", "distill", term), w.start("distill 2", "distill", term)}
	shards := w.start("feed", "feed")
	control := w.start("checkpoint", "checkpoint")
	for _, p := range slices.Concat(gateway, workers, []*process{shards, control}) {
		p.awaitReady(30 * time.Second)
	}
	emitter := w.must("token", "create", "emitter", "--scope", "events:write,assign:read")
	trainer := w.must("token", "create", "trainer", "--scope", "shards:read")
	manager := w.must("token", "create", "manager", "--scope", "releases:write,gates:read")
	w.must("release", "init", base, "--server", "http://"+control.address, "--token", manager)
	require.Equal(t, base, field(t, w.must("-o", "json", "release", "status", "--server", "http://"+control.address, "--token", manager), "live", "version"))

	traffic := w.play(emitter, gateway)
	traffic.awaitMore(1000)

	t.Log("kill -9 of a worker: the other takes its partitions over")
	killed := time.Now()
	workers[0].kill()
	await(t, 30*time.Second, "the partitions have moved", func() bool { return w.held(workers[1]) == kafkaPartitions })
	t.Logf("taken over after %s (lease term %s)", time.Since(killed).Round(100*time.Millisecond), kafkaLease)
	workers[0] = w.start("distill 3", "distill", term)
	await(t, 30*time.Second, "the new worker has its share", func() bool { return w.held(workers[0]) == kafkaPartitions/2 && w.held(workers[1]) == kafkaPartitions/2 })

	t.Log("kill -9 of a gateway: the emitter goes on with the other")
	gateway[0].kill()
	traffic.awaitMore(500)
	gateway[0] = w.start("ingest 3", "ingest", "--listen", gateway[0].address)
	traffic.awaitMore(500)

	t.Log("kill -9 of the broker: gateways say retry, workers wait, everything goes on")
	w.kafka4("kill", "1")
	for _, g := range gateway {
		await(t, 20*time.Second, g.name+" says that it can't take events", func() bool {
			status, body := g.get("/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(body, "refused")
		})
		status, answered := w.post(g, emitter, single("outage"))
		require.Equal(t, http.StatusServiceUnavailable, status, answered)
		require.Contains(t, answered, `"status":"retry"`)
	}
	status, body := workers[0].get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status, body)
	shards.awaitReady(5 * time.Second) // it needs no Kafka
	w.kafka4("restart", "1")
	for _, p := range slices.Concat(gateway, workers) {
		p.awaitReady(30 * time.Second)
	}
	require.Equal(t, kafkaPartitions, w.held(workers[0])+w.held(workers[1]), "nobody lost a partition by the outage")
	traffic.awaitMore(500)

	sent := traffic.finish()
	quiet := time.Now()
	t.Logf("%d events of %d turns sent; %v by status, %d requests failed, %d events sent again", len(sent.events), len(sent.turns),
		traffic.door.statuses, traffic.door.failed, sent.stats.SentAgain)
	require.Empty(t, sent.stats.Rejected, sent.stats.Example)
	require.Positive(t, sent.stats.SentAgain)
	await(t, 2*time.Minute, "every turn has settled", func() bool {
		var through *time.Time
		require.NoError(t, w.pool.QueryRow(t.Context(), `select min(log_time) from partition where topic = $1`, w.topic).Scan(&through))
		return through != nil && through.After(quiet.Add(maxTurn+lateness))
	})
	for _, g := range gateway {
		g.stop()
	}

	w.sameAsUndisturbed()
	w.nothingLostOrDoubled(sent)
	w.pullable(shards, trainer)
	for name, metric := range map[*process]string{workers[1]: "millrace_commits_total", shards: "go_goroutines", control: "go_goroutines"} {
		_, body := name.get("/metrics")
		require.Contains(t, body, "\n"+metric)
	}
	w.must("doctor")
	require.Equal(t, "no dead letters", w.must("deadletters", "list"))
	w.drains(shards, trainer)
	workers[0].stop()
	await(t, kafkaLease, "the partitions were given back at once", func() bool { return w.held(workers[1]) == kafkaPartitions })
	workers[1].stop()
	control.stop()
}

// refusals: what is missing or not migrated is said in a sentence, with the right exit code.
func (w *world) refusals() {
	for _, role := range []string{"ingest", "distill", "feed", "checkpoint"} {
		stdout, stderr, code := w.millrace("run", role, "--postgres=")
		require.Equal(w.t, exitUsage, code, stderr)
		require.Equal(w.t, "millrace: missing: --postgres (or MILLRACE_POSTGRES); `millrace up` needs none of this\n", stderr)
		require.Empty(w.t, stdout)
		_, stderr, code = w.millrace("run", role)
		require.Equal(w.t, exitFailed, code, stderr)
		require.Contains(w.t, stderr, "millrace: database schema: the database is empty; run `millrace migrate`\n")
	}
	stdout, _, code := w.millrace("doctor")
	require.Equal(w.t, exitFailed, code)
	require.Regexp(w.t, `WRONG +schema +.*millrace migrate`, stdout)
	require.Regexp(w.t, `WRONG +kafka +topic .* does not exist; .millrace migrate. makes it`, stdout)
}

func (w *world) migrate() {
	_, document := rewardspec.Default()
	spec := filepath.Join(w.t.TempDir(), "spec.yaml")
	short := bytes.Replace(document, []byte("settle_after: 20m"), []byte("settle_after: 5s"), 1)
	require.NotEqual(w.t, document, short)
	require.NoError(w.t, os.WriteFile(spec, short, 0o600))
	args := []string{
		"migrate", fmt.Sprint("--partitions=", kafkaPartitions), "--spec", spec, "--lateness", lateness.String(), "--max-turn", maxTurn.String(),
		"--dedupe-window=30m", "--batch-interval=3s",
	}
	w.must(args...)
	w.must("migrate") // again, and without saying how many partitions
	out := w.must("doctor")
	require.NotContains(w.t, out, "WRONG")
	_, stderr, code := w.millrace("run", "feed", "--topic", "another")
	require.Equal(w.t, exitFailed, code)
	require.Contains(w.t, stderr, "topic another is not known to this database; check --topic, or run `millrace migrate` for it")
}

// held is how many partitions a worker holds.
func (w *world) held(p *process) (n int) {
	err := w.pool.QueryRow(w.t.Context(), `select count(*) from partition where topic = $1 and owner like $2`,
		w.topic, fmt.Sprintf("%%/%d/distill", p.cmd.Process.Pid)).Scan(&n)
	require.NoError(w.t, err)
	return n
}

// post sends one event to one gateway.
func (w *world) post(to *process, token string, e *event.SessionEvent) (int, string) {
	body, err := (&event.EventBatch{Events: []*event.SessionEvent{e}}).MarshalVT()
	require.NoError(w.t, err)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+to.address+"/v1/events", bytes.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	return res.StatusCode, string(answer)
}

func single(id string) *event.SessionEvent {
	return &event.SessionEvent{
		Source: "test", EventId: id, SessionId: id, Privacy: event.Privacy_FULL, OccurredAt: timestamppb.Now(),
		Body: &event.SessionEvent_SessionEnded{SessionEnded: &event.SessionEnded{Reason: "closed"}},
	}
}

// played is live traffic: simulated users, in real time, through all gateways.
type played struct {
	t      *testing.T
	door   *gateways
	driver *drive.Driver
	source *recorded
	done   chan error
}

// recorded keeps what the simulation hands out.
type recorded struct {
	*sim.Sim
	events map[string]bool // by source and id
	turns  map[string]bool // that were opened, by session and turn
}

// Next implements drive.Source.
func (r *recorded) Next(until time.Time) []*event.SessionEvent {
	out := r.Sim.Next(until)
	for _, e := range out {
		r.events[e.Source+"/"+e.EventId] = true
		if e.TurnId != "" && turn.Opens(e) {
			r.turns[e.SessionId+"/"+e.TurnId] = true
		}
	}
	return out
}

func (w *world) play(token string, through []*process) *played {
	p := &played{t: w.t, door: &gateways{statuses: map[int]int{}}, done: make(chan error, 1)}
	for _, g := range through {
		p.door.addresses = append(p.door.addresses, g.address)
	}
	var err error
	p.driver, err = drive.New(drive.Config{
		URL: "http://gateways", Token: token, Flag: ingest.FlagKey, Step: 500 * time.Millisecond,
		Client: &http.Client{Transport: p.door, Timeout: 30 * time.Second},
		Advance: func(ctx context.Context, now time.Time) error { // no faster than the clock on the wall
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(now)):
			}
			return ctx.Err()
		},
	})
	require.NoError(w.t, err)
	start := time.Now()
	traffic, err := sim.New(sim.Config{Seed: uint64(start.UnixNano()), Start: start, Units: 6000, TurnsPerUnitHour: 20, BaseVersion: base, Assign: p.driver.Assign})
	require.NoError(w.t, err)
	p.source = &recorded{Sim: traffic, events: map[string]bool{}, turns: map[string]bool{}}
	go func() { p.done <- p.driver.Run(w.t.Context(), p.source, start.Add(trafficFor)) }()
	return p
}

// awaitMore waits until so many more events are accepted.
func (p *played) awaitMore(n int64) {
	p.t.Helper()
	until := p.driver.Stats().Accepted + n
	await(p.t, time.Minute, fmt.Sprintf("%d more events are accepted", n), func() bool {
		select {
		case err := <-p.done:
			p.t.Fatalf("the traffic ended too early: %v", err)
		default:
		}
		return p.driver.Stats().Accepted >= until
	})
}

type sent struct {
	*recorded
	stats drive.Stats
}

func (p *played) finish() sent {
	p.t.Helper()
	select {
	case err := <-p.done:
		require.NoError(p.t, err)
	case <-time.After(2 * time.Minute):
		p.t.Fatal("the traffic does not end")
	}
	return sent{p.source, p.driver.Stats()}
}

// sameAsUndisturbed: a worker that nobody disturbs makes the same of the same log, row for row and file for file.
func (w *world) sameAsUndisturbed() {
	pool := postgrestest.New(w.t)
	require.NoError(w.t, distill.Register(w.t.Context(), pool, w.topic, kafkaPartitions))
	objects := filepath.Join(w.t.TempDir(), "objects")
	for _, folder := range []string{"documents", "tool-schemas"} { // what the control plane and the gateways wrote
		require.NoError(w.t, os.CopyFS(filepath.Join(objects, folder), os.DirFS(filepath.Join(w.objects, folder))))
	}
	p := w.start("undisturbed", "distill", "--postgres", pool.Config().ConnString(), "--objects", objects)
	const facts = `
		select 'partition', partition::text, committed_offset::text, concat_ws(' ', low_watermark, log_time, state_sha256, log_digest, turns_opened, turns_open)
			from partition where topic = $1
		union all select 'file ' || kind, id, sha256, concat_ws(' ', policy_version, rows, trained_tokens, reward_sum, reward_spec, log_time) from shard where topic = $1
		union all select 'records', class, partition::text, records::text from account_records where topic = $1
		union all select 'turns', concat_ws(' ', policy_version, arm, disposition), partition::text, turns::text from account_turns where topic = $1
		order by 1, 2, 3`
	read := func(pool *pgxpool.Pool) [][]string {
		rows, err := pool.Query(w.t.Context(), facts, w.topic)
		require.NoError(w.t, err)
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]string, error) {
			cells := make([]string, 4)
			return cells, row.Scan(&cells[0], &cells[1], &cells[2], &cells[3])
		})
		require.NoError(w.t, err)
		return all
	}
	positions := func(all [][]string) (at []string) {
		for _, row := range all {
			if row[0] == "partition" {
				at = append(at, row[2])
			}
		}
		return at
	}
	await(w.t, time.Minute, "the undisturbed worker is as far", func() bool {
		return slices.Equal(positions(read(pool)), positions(read(w.pool)))
	})
	require.Equal(w.t, read(pool), read(w.pool))
	p.stop()
}

// nothingLostOrDoubled holds the accounts and the ledger against what was sent, and against the log.
func (w *world) nothingLostOrDoubled(sent sent) {
	var account struct {
		Balanced bool             `json:"balanced"`
		Read     int64            `json:"read"`
		Records  map[string]int64 `json:"records"`
		Opened   int64            `json:"turns_opened"`
		Settled  int64            `json:"turns_settled"`
		Open     int64            `json:"turns_open"`
	}
	require.NoError(w.t, json.Unmarshal([]byte(w.must("-o", "json", "account")), &account))
	w.t.Logf("account: %+v", account)
	require.True(w.t, account.Balanced)
	require.Zero(w.t, account.Open)
	require.Zero(w.t, account.Records["dead_lettered"])
	require.EqualValues(w.t, len(sent.turns), account.Settled)

	inLog := w.readLog()
	require.Equal(w.t, sent.events, inLog.events, "the log has what was accepted, and nothing else")
	require.Equal(w.t, inLog.controls, account.Records["control"])
	require.Equal(w.t, inLog.records, account.Read)
	once := account.Records["applied"] + account.Records["amended"]
	loose := account.Records["orphan"] + account.Records["expired"] // of which a repeat is loose again
	require.LessOrEqual(w.t, once, int64(len(sent.events)))
	require.GreaterOrEqual(w.t, once+loose, int64(len(sent.events)))
	require.Equal(w.t, inLog.records-inLog.controls, once+loose+account.Records["duplicate"])

	store, err := objstore.NewFolder(w.objects)
	require.NoError(w.t, err)
	files, err := feed.LedgerFiles(w.t.Context(), w.pool)
	require.NoError(w.t, err)
	turns := map[string]bool{}
	for _, f := range files {
		body, err := store.Get(w.t.Context(), f.Key)
		require.NoError(w.t, err)
		rows, err := arrowfile.ReadLedger(body)
		require.NoError(w.t, err)
		for i := range rows {
			if rows[i].Kind == "turn" {
				key := rows[i].SessionID + "/" + rows[i].TurnID
				require.False(w.t, turns[key], "turn %s stands twice in the ledger", key)
				turns[key] = true
			}
		}
	}
	require.Equal(w.t, sent.turns, turns, "each turn stands once in the ledger")
}

// logged is what stands in the log, below the committed offsets.
type logged struct {
	records, controls int64
	events            map[string]bool
}

func (w *world) readLog() logged {
	reader, err := eventlog.NewReader(eventlog.Config{Brokers: strings.Split(w.brokers, ","), Topic: w.topic})
	require.NoError(w.t, err)
	defer reader.Close()
	keyring, err := eventlog.NewKeyring(map[string][]byte{"1": bytes.Repeat([]byte{0x5e}, 32)}, "1")
	require.NoError(w.t, err)
	found := logged{events: map[string]bool{}}
	for p := range int32(kafkaPartitions) {
		var committed int64
		require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `select committed_offset from partition where topic = $1 and partition = $2`, w.topic, p).Scan(&committed))
		for next := int64(0); next < committed; {
			records, err := reader.Fetch(w.t.Context(), p, next)
			require.NoError(w.t, err)
			for _, r := range records {
				next = r.Offset + 1
				if r.Offset >= committed {
					continue
				}
				e, control, reject := eventlog.Decode(r, keyring, kafkaPartitions)
				require.Empty(w.t, reject)
				found.records++
				if control != nil {
					found.controls++
					continue
				}
				found.events[e.Source+"/"+e.EventId] = true
			}
		}
	}
	return found
}

// pullable: the feed's shards are what their manifests say, and the object store's manifests are the API's.
func (w *world) pullable(shards *process, token string) {
	server := []string{"--server", "http://" + shards.address, "--token", token}
	var committed int
	require.NoError(w.t, w.pool.QueryRow(w.t.Context(), `select count(*) from shard where kind = 'sample' and policy_version = $1`, base).Scan(&committed))
	var listed []string
	await(w.t, 20*time.Second, "every shard is published", func() bool {
		listed = strings.Split(w.must(append([]string{"-o", "json", "shards", "list", base}, server...)...), "\n")
		return len(listed) == committed
	})
	to := w.t.TempDir()
	w.must(append([]string{"shards", "pull", base, "--to", to}, server...)...)
	rows := int64(0)
	for i, line := range listed {
		var m manifest.Shard
		require.NoError(w.t, json.Unmarshal([]byte(line), &m))
		require.EqualValues(w.t, i+1, m.Number)
		want, err := m.Encode()
		require.NoError(w.t, err)
		stored, err := os.ReadFile(filepath.Join(w.objects, filepath.FromSlash(manifest.Key(base, m.Number))))
		require.NoError(w.t, err)
		require.Equal(w.t, string(want), string(stored))
		body, err := os.ReadFile(filepath.Join(to, m.ID+".arrow"))
		require.NoError(w.t, err)
		require.Equal(w.t, m.SHA256, arrowfile.SHA256(body))
		meta, samples, err := arrowfile.ReadShard(body)
		require.NoError(w.t, err)
		require.Equal(w.t, base, meta.PolicyVersion)
		require.Len(w.t, samples, int(m.Rows))
		rows += m.Rows
	}
	require.Positive(w.t, rows)
	w.t.Logf("%d shards with %d rows pulled", len(listed), rows)
	w.must("shards", "verify")
}

// drains: a feed that is told to stop answers who waits, at once.
func (w *world) drains(shards *process, token string) {
	waiting := make(chan string, 1)
	go func() {
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+shards.address+"/v1/policies/"+base+"/shards?after=1000000&wait=50s", nil)
		if err != nil {
			waiting <- err.Error()
			return
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			waiting <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		waiting <- string(body)
	}()
	await(w.t, 10*time.Second, "somebody waits", func() bool {
		_, metrics := shards.get("/metrics") // whose own request is in flight too
		return strings.Contains(metrics, "\nmillrace_http_requests_in_flight 2\n")
	})
	began := time.Now()
	shards.stop()
	require.Less(w.t, time.Since(began), 10*time.Second)
	require.Contains(w.t, <-waiting, `"shards":[]`)
}

func field(t *testing.T, document string, path ...string) any {
	t.Helper()
	var v any
	require.NoError(t, json.Unmarshal([]byte(document), &v), document)
	for _, name := range path {
		m, ok := v.(map[string]any)
		require.True(t, ok, "%s in %s", name, document)
		v = m[name]
	}
	return v
}
