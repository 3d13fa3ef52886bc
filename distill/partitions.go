package distill

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Register puts a topic's partitions on record. They are chosen once: repeating it changes nothing.
func Register(ctx context.Context, pool *pgxpool.Pool, topic string, partitions int) error {
	_, err := pool.Exec(ctx, `insert into partition (topic, partition)
		select $1, p from generate_series(0, $2 - 1) p on conflict do nothing`, topic, partitions)
	if err != nil {
		return fmt.Errorf("making the rows of the partitions of %s: %w", topic, err)
	}
	return nil
}

// Partitions is how many partitions of a topic are on record; 0: the topic was never registered.
func Partitions(ctx context.Context, pool *pgxpool.Pool, topic string) (n int, err error) {
	if err := pool.QueryRow(ctx, `select count(*) from partition where topic = $1`, topic).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the partitions of %s: %w", topic, err)
	}
	return n, nil
}

// LowWatermark is the first offset of a partition that belongs to a turn which has not settled, as of the last commit:
// what lies before it will never be scored again.
func LowWatermark(ctx context.Context, pool *pgxpool.Pool, topic string, partition int32) (offset int64, err error) {
	err = pool.QueryRow(ctx, `select low_watermark from partition where topic = $1 and partition = $2`, topic, partition).Scan(&offset)
	if err != nil {
		return 0, fmt.Errorf("reading where %s/%d has settled: %w", topic, partition, err)
	}
	return offset, nil
}
