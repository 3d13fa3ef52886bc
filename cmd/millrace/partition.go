package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// PartitionCommand shows and resumes partitions.
type PartitionCommand struct {
	Show   PartitionShow   `cmd:"" help:"Where each partition stands, who holds it, and why it halted."`
	Resume PartitionResume `cmd:"" help:"Let a halted partition go on, after its cause is mended."`
}

// PartitionShow is partition show.
type PartitionShow struct {
	Tables `embed:""`
}

// Run implements the command.
func (c *PartitionShow) Run(ctx context.Context, out *Output) error {
	pool, topic, err := c.open(ctx, "partition")
	if err != nil {
		return err
	}
	defer pool.Close()
	type partition struct {
		Partition       int        `json:"partition"`
		Owner           string     `json:"owner"`
		Epoch           int64      `json:"epoch"`
		CommittedOffset int64      `json:"committed_offset"`
		LowWatermark    int64      `json:"low_watermark"`
		LogTime         *time.Time `json:"log_time"`
		Halted          string     `json:"halted,omitempty"`
	}
	rows, err := pool.Query(ctx, `select partition, coalesce(owner, ''), epoch, committed_offset, low_watermark, log_time, coalesce(halted, '')
		from partition where topic = $1 order by partition`, topic)
	if err != nil {
		return fmt.Errorf("reading the partitions: %w", err)
	}
	all := []partition{}
	for rows.Next() {
		var x partition
		if err := rows.Scan(&x.Partition, &x.Owner, &x.Epoch, &x.CommittedOffset, &x.LowWatermark, &x.LogTime, &x.Halted); err != nil {
			return err
		}
		all = append(all, x)
	}
	if rows.Err() != nil {
		return fmt.Errorf("reading the partitions: %w", rows.Err())
	}
	if out.JSON {
		return out.Object(all)
	}
	t := tabwriter.NewWriter(out.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "partition\tcommitted\tlow watermark\tlog time\towner\tstate")
	for _, x := range all {
		state, at := "running", "-"
		if x.Owner == "" {
			state = "unclaimed"
		}
		if x.Halted != "" {
			state = "HALTED: " + x.Halted
		}
		if x.LogTime != nil {
			at = x.LogTime.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%s\t%s\t%s\n", x.Partition, x.CommittedOffset, x.LowWatermark, at, x.Owner, state)
	}
	return t.Flush()
}

// PartitionResume is partition resume.
type PartitionResume struct {
	Tables    `embed:""`
	Partition int `arg:"" help:"The partition's number."`
}

// Run implements the command.
func (c *PartitionResume) Run(ctx context.Context, out *Output) error {
	pool, topic, err := c.open(ctx, "partition")
	if err != nil {
		return err
	}
	defer pool.Close()
	tag, err := pool.Exec(ctx, `update partition set halted = null where topic = $1 and partition = $2 and halted is not null`, topic, c.Partition)
	if err != nil {
		return fmt.Errorf("resuming partition %d: %w", c.Partition, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("partition %d of %s is not halted; `millrace partition show` lists them", c.Partition, topic)
	}
	out.Print("partition %d goes on with the next free worker", c.Partition)
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
