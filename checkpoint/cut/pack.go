package cut

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"millrace/internal/arrowfile"
	"millrace/schemas/sample"
)

// Config says how cuts are packed.
type Config struct {
	Packing
	MemoryBytes int64 // of the rows held at once; 1 GiB
}

// Packing are the rules that a cut's files follow from. They are fixed with the cut: a process that was started with
// others in the middle of its packing would mix two divisions of the same rows.
type Packing struct {
	PartBytes int64   `json:"part_bytes"` // about, of a part before compression; 256 MiB
	UnitShare float64 `json:"unit_share"` // of the rows of a cut, that one unit may have; 0.02
	UnitRows  int64   `json:"unit_rows"`  // that a unit may have in any case; 100
	MinRows   int64   `json:"min_rows"`   // a cut with fewer is skipped; 500
	MinUnits  int64   `json:"min_units"`  // a cut of fewer units is skipped; 50
}

// DefaultConfig is the design's.
func DefaultConfig() Config {
	return Config{Packing: Packing{PartBytes: 256 << 20, UnitShare: .02, UnitRows: 100, MinRows: 500, MinUnits: 50}, MemoryBytes: 1 << 30}
}

// Validate names the first setting that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.PartBytes <= 0:
		return fmt.Errorf("cut: part bytes %d, want > 0", c.PartBytes)
	case c.MemoryBytes < c.PartBytes:
		return fmt.Errorf("cut: memory for rows %d, want at least a part (%d)", c.MemoryBytes, c.PartBytes)
	case c.UnitShare <= 0 || c.UnitShare > 1:
		return fmt.Errorf("cut: a unit's share %g, want 0 < share ≤ 1", c.UnitShare)
	case c.UnitRows < 0 || c.MinRows < 1 || c.MinUnits < 1:
		return fmt.Errorf("cut: a unit's rows %d want ≥ 0, fewest rows %d and units %d ≥ 1", c.UnitRows, c.MinRows, c.MinUnits)
	}
	return nil
}

// Store is where shards are read and parts written.
type Store interface {
	PutIfAbsent(ctx context.Context, key string, body []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
}

// Database is a pool, or a transaction.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Packer makes the parts of complete cuts.
type Packer struct {
	cfg   Config
	db    Database
	store Store
	write func(context.Context, func(pgx.Tx) error) error
}

// NewPacker builds a Packer. write runs a transaction that first checks the leader's term.
func NewPacker(cfg Config, db Database, store Store, write func(context.Context, func(pgx.Tx) error) error) (*Packer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Packer{cfg: cfg, db: db, store: store, write: write}, nil
}

// Result is a packed cut that Finish records, or the reason why it has to be skipped.
type Result struct {
	Skip     string
	Manifest Manifest
	Key      string // of the manifest
	SHA256   string
}

// Pack reads a complete cut's shards, writes its parts and its manifest, and says what there is now. It may be
// repeated: parts that were recorded before a crash are taken as they are, the others come out the same again.
func (p *Packer) Pack(ctx context.Context, c *Cut) (*Result, error) {
	shards, err := Select(ctx, p.db, c)
	if err != nil {
		return nil, err
	}
	rules := p.cfg.Packing
	if c.Packing != nil {
		rules = *c.Packing
	}
	m := Manifest{
		Version: 1, Cut: c.ID, DueAt: c.DueAt, Base: c.Base, Topic: c.Topic, Seed: c.Seed, Shards: shards, Without: c.Without,
		PolicyVersions: []string{}, RewardSpecs: []string{}, Parts: []Part{},
	}
	src := newSource(p.store, shards, p.cfg.MemoryBytes)
	all, err := survey(ctx, src, c, &m)
	if err != nil {
		return nil, err
	}
	order(all)
	kept, capped := limit(all, rules.UnitShare, rules.UnitRows)
	units := map[string]bool{}
	for _, t := range kept {
		m.Taken += int64(t.rows)
		m.Tokens += t.tokens
		units[t.unit] = true
	}
	m.Capped, m.Units = capped, int64(len(units))
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.ID, err)
	}
	if m.Taken < rules.MinRows || m.Units < rules.MinUnits {
		return &Result{Skip: fmt.Sprintf("%d rows of %d units of %s, at least %d rows of %d units are wanted; they go to the next cut",
			m.Taken, m.Units, c.Base, rules.MinRows, rules.MinUnits)}, nil
	}
	if err := p.parts(ctx, src, c, split(kept, rules.PartBytes), &m); err != nil {
		return nil, err
	}
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the manifest of %s: %w", c.ID, err)
	}
	out := &Result{Manifest: m, Key: ManifestKey(c.ID), SHA256: arrowfile.SHA256(body)}
	if err := p.store.PutIfAbsent(ctx, out.Key, body); err != nil {
		return nil, fmt.Errorf("write the manifest of %s: %w", c.ID, err)
	}
	return out, nil
}

// survey reads every taken shard once, and makes the index of its turns.
func survey(ctx context.Context, src *source, c *Cut, m *Manifest) ([]turn, error) {
	var (
		all                             []turn
		tokenizers, templates, versions = map[string]bool{}, map[string]bool{}, map[string]bool{}
		specs                           = map[string]bool{}
	)
	for i, s := range src.shards {
		m.InShards += s.Rows
		switch s.Fate {
		case Superseded:
			m.Superseded += s.Rows
			continue
		case Stale:
			m.Stale += s.Rows
			continue
		case Taken:
		}
		rows, err := src.rows(ctx, i)
		if err != nil {
			return nil, err
		}
		versions[s.PolicyVersion], specs[s.RewardSpec] = true, true
		for n := range rows {
			r := &rows[n]
			tokenizers[r.TokenizerDigest], templates[r.ChatTemplateDigest] = true, true
			if n == 0 || rows[n-1].TurnID != r.TurnID || rows[n-1].SessionID != r.SessionID {
				all = append(all, turn{place: place(c.Seed, r.TurnID), id: r.TurnID, session: r.SessionID, unit: r.UnitHash, shard: i, first: n})
			}
			t := &all[len(all)-1]
			t.rows++
			t.bytes += rowBytes(r)
			for _, trained := range r.LossMask {
				t.tokens += int64(trained)
			}
		}
	}
	m.PolicyVersions = slices.AppendSeq(m.PolicyVersions, maps.Keys(versions))
	m.RewardSpecs = slices.AppendSeq(m.RewardSpecs, maps.Keys(specs))
	slices.Sort(m.PolicyVersions)
	slices.Sort(m.RewardSpecs)
	m.TokenizerDigest, m.ChatTemplateDigest = only(tokenizers), only(templates)
	return all, nil
}

// rowBytes estimates what a row takes: its per-token arrays, and the rest in round numbers.
func rowBytes(r *sample.Row) int64 {
	return int64(len(r.InputIDs)+len(r.LossMask)+len(r.BehaviorLogprobs)+4*len(r.TokenAdvantages)+32*len(r.Steps)) + 512
}

func only(set map[string]bool) string {
	if len(set) != 1 {
		return ""
	}
	for v := range set {
		return v
	}
	return ""
}

// parts writes the parts that are not recorded yet, as many at once as the memory holds, so that every shard is read
// once for each such group.
func (p *Packer) parts(ctx context.Context, src *source, c *Cut, plan [][]turn, m *Manifest) error {
	done, err := Parts(ctx, p.db, c.ID)
	if err != nil {
		return err
	}
	recorded := map[int]Part{}
	for _, part := range done {
		recorded[part.Number] = part
	}
	for from := 0; from < len(plan); {
		to, bytes := from, int64(0)
		for to < len(plan) && (to == from || bytes < p.cfg.MemoryBytes) {
			if _, ok := recorded[to]; !ok {
				for _, t := range plan[to] {
					bytes += t.bytes
				}
			}
			to++
		}
		gathered, err := gather(ctx, src, plan, from, to, recorded)
		if err != nil {
			return err
		}
		for n := from; n < to; n++ {
			part, ok := recorded[n]
			if !ok {
				if part, err = p.part(ctx, c, n, plan[n], gathered[n], m); err != nil {
					return err
				}
			}
			m.Parts = append(m.Parts, part)
		}
		from = to
	}
	return nil
}

// gather collects the rows of the parts from…to−1, each in its order, reading each shard at most once.
func gather(ctx context.Context, src *source, plan [][]turn, from, to int, skip map[int]Part) (map[int][]sample.Row, error) {
	type target struct{ part, at, turn int }
	wanted := map[int][]target{} // by shard
	out := map[int][]sample.Row{}
	for n := from; n < to; n++ {
		if _, ok := skip[n]; ok {
			continue
		}
		at := 0
		for i, t := range plan[n] {
			wanted[t.shard] = append(wanted[t.shard], target{part: n, at: at, turn: i})
			at += t.rows
		}
		out[n] = make([]sample.Row, at)
	}
	for _, shard := range slices.Sorted(maps.Keys(wanted)) {
		rows, err := src.rows(ctx, shard)
		if err != nil {
			return nil, err
		}
		for _, w := range wanted[shard] {
			t := plan[w.part][w.turn]
			copy(out[w.part][w.at:], rows[t.first:t.first+t.rows])
		}
	}
	return out, nil
}

func (p *Packer) part(ctx context.Context, c *Cut, n int, turns []turn, rows []sample.Row, m *Manifest) (Part, error) {
	id := fmt.Sprintf("%s/%d", c.ID, n)
	spec := ""
	if len(m.RewardSpecs) == 1 {
		spec = m.RewardSpecs[0]
	}
	body, err := arrowfile.WriteShard(arrowfile.ShardMeta{ShardID: id, PolicyVersion: c.Base, RewardSpec: spec, Topic: c.Topic, Partition: -1, FirstOffset: -1, LastOffset: -1}, rows, "zstd")
	if err != nil {
		return Part{}, fmt.Errorf("write part %s: %w", id, err)
	}
	part := Part{Number: n, SHA256: arrowfile.SHA256(body), Bytes: int64(len(body)), Rows: int64(len(rows))}
	// The digest in the name: another build's codec may give other bytes for the same rows.
	part.Key = fmt.Sprintf("cuts/%s/part-%05d-%s.arrow", c.ID, n, part.SHA256[:16])
	for _, t := range turns {
		part.Tokens += t.tokens
	}
	if err := p.store.PutIfAbsent(ctx, part.Key, body); err != nil {
		return Part{}, fmt.Errorf("write part %s: %w", id, err)
	}
	err = p.write(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `insert into cut_part (cut, number, key, sha256, bytes, rows, tokens) values ($1, $2, $3, $4, $5, $6, $7)`,
			c.ID, n, part.Key, part.SHA256, part.Bytes, part.Rows, part.Tokens)
		return err
	})
	if err != nil {
		return Part{}, fmt.Errorf("record part %s: %w", id, err)
	}
	return part, nil
}

// Parts reads the recorded parts of a cut, in order.
func Parts(ctx context.Context, q querier, cut string) ([]Part, error) {
	rows, err := q.Query(ctx, `select number, key, sha256, bytes, rows, tokens from cut_part where cut = $1 order by number`, cut)
	if err != nil {
		return nil, fmt.Errorf("read the parts of %s: %w", cut, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Part])
	if err != nil {
		return nil, fmt.Errorf("read the parts of %s: %w", cut, err)
	}
	return out, nil
}

// Finish records a packed cut and what became of every shard.
func Finish(ctx context.Context, tx pgx.Tx, id string, p *Result, now time.Time) error {
	m := &p.Manifest
	shards, fates, rows := make([]string, len(m.Shards)), make([]string, len(m.Shards)), make([]int64, len(m.Shards))
	for i, s := range m.Shards {
		shards[i], fates[i], rows[i] = s.ID, string(s.Fate), s.Rows
	}
	_, err := tx.Exec(ctx, `insert into cut_shard (shard, cut, fate, rows) select s, $1, f, r from unnest($2::text[], $3::text[], $4::bigint[]) as x (s, f, r)`, id, shards, fates, rows)
	if err != nil {
		return fmt.Errorf("record the shards of %s: %w", id, err)
	}
	tag, err := tx.Exec(ctx, `
		update cut set state = 'packed', reason = '', packed_at = $2, manifest_key = $3, manifest_sha256 = $4,
			rows_in_shards = $5, rows_taken = $6, rows_superseded = $7, rows_stale = $8, rows_capped = $9, tokens = $10, units = $11,
			tokenizer_digest = $12, chat_template_digest = $13
		where id = $1 and state = 'complete'`,
		id, now.UTC(), p.Key, p.SHA256, m.InShards, m.Taken, m.Superseded, m.Stale, m.Capped, m.Tokens, m.Units, m.TokenizerDigest, m.ChatTemplateDigest)
	if err != nil {
		return fmt.Errorf("record %s as packed: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%s is not complete any more", id)
	}
	return nil
}
