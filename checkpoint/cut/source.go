package cut

import (
	"context"
	"fmt"

	"millrace/internal/arrowfile"
	"millrace/schemas/sample"
)

// source reads shards, verified before they are parsed: Arrow files carry no checksum. If all of them fit into the
// memory limit, each is read once and kept.
type source struct {
	store  Store
	shards []Shard
	keep   bool
	kept   map[int][]sample.Row
}

func newSource(store Store, shards []Shard, memory int64) *source {
	var bytes int64
	for _, s := range shards {
		if s.Fate == Taken {
			bytes += s.Bytes
		}
	}
	// Rows in memory take about three times what lz4 leaves of them.
	return &source{store: store, shards: shards, keep: bytes <= memory/3, kept: map[int][]sample.Row{}}
}

func (s *source) rows(ctx context.Context, i int) ([]sample.Row, error) {
	if rows, ok := s.kept[i]; ok {
		return rows, nil
	}
	shard := s.shards[i]
	body, err := s.store.Get(ctx, shard.Key)
	if err != nil {
		return nil, fmt.Errorf("read shard %s: %w", shard.ID, err)
	}
	if int64(len(body)) != shard.Bytes || arrowfile.SHA256(body) != shard.SHA256 {
		return nil, fmt.Errorf("shard %s is damaged: %s has other bytes than were committed (%d, want %d with SHA-256 %s)", shard.ID, shard.Key, len(body), shard.Bytes, shard.SHA256)
	}
	_, rows, err := arrowfile.ReadShard(body)
	if err != nil {
		return nil, fmt.Errorf("read shard %s: %w", shard.ID, err)
	}
	if int64(len(rows)) != shard.Rows {
		return nil, fmt.Errorf("shard %s has %d rows, committed were %d", shard.ID, len(rows), shard.Rows)
	}
	if s.keep {
		s.kept[i] = rows
	}
	return rows, nil
}
