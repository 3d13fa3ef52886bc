package scorecard

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/schemas/sample"
)

// WriteFiles writes the ledger (Parquet), and a shard (Arrow) for each policy version that has samples, into a folder.
// Files are named by their content: writing the same again changes nothing. It returns the paths.
func (s *Scored) WriteFiles(ctx context.Context, dir string) ([]string, error) {
	store, err := objstore.NewFolder(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	put := func(folder, ext string, body []byte) error {
		key := folder + "/" + arrowfile.SHA256(body)[:16] + ext
		if err := store.PutIfAbsent(ctx, key, body); err != nil {
			return fmt.Errorf("write %s: %w", filepath.Join(dir, key), err)
		}
		paths = append(paths, filepath.Join(dir, filepath.FromSlash(key)))
		return nil
	}
	body, err := arrowfile.WriteLedger(append(slices.Clone(s.Rows), s.Amendments...))
	if err != nil {
		return nil, fmt.Errorf("make the ledger: %w", err)
	}
	present, err := store.List(ctx, "ledger/")
	if err != nil {
		return nil, fmt.Errorf("look into %s: %w", dir, err)
	}
	if own := "ledger/" + arrowfile.SHA256(body)[:16] + ".parquet"; len(present) > 0 && !slices.Equal(present, []string{own}) {
		return nil, fmt.Errorf("%s holds the ledger of another run, and whoever reads both counts turns twice; choose an empty folder, or delete that one", dir)
	}
	if err := put("ledger", ".parquet", body); err != nil {
		return nil, err
	}
	var versions []string
	byVersion := map[string][]sample.Row{}
	for _, row := range s.Samples {
		if byVersion[row.PolicyVersion] == nil {
			versions = append(versions, row.PolicyVersion)
		}
		byVersion[row.PolicyVersion] = append(byVersion[row.PolicyVersion], row)
	}
	for i, version := range versions {
		meta := arrowfile.ShardMeta{
			ShardID: fmt.Sprintf("score-%d", i), PolicyVersion: version, RewardSpec: s.Reward.Spec().ID(), Topic: topic, LastOffset: s.Balance.Read - 1,
		}
		if body, err = arrowfile.WriteShard(meta, byVersion[version], "zstd"); err != nil {
			return nil, fmt.Errorf("make the shard of %s: %w", version, err)
		}
		if err := put("shards", ".arrow", body); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
