package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"millrace/feed"
	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/manifest"
)

// ShardsCommand looks at shards and pulls them.
type ShardsCommand struct {
	List   ShardsList   `cmd:"" help:"The policy versions that have shards, or the manifests of one."`
	Pull   ShardsPull   `cmd:"" help:"Download a policy version's shards, verified; goes on where it stopped."`
	Cat    ShardsCat    `cmd:"" help:"Print the rows of a shard or ledger file, one JSON object a line."`
	Verify ShardsVerify `cmd:"" help:"Read every committed file and compare size, SHA-256 and rows with what was committed."`
}

// ShardsList is shards list.
type ShardsList struct {
	Remote `embed:""`
	Policy string `arg:"" optional:"" help:"Policy version."`
	After  int64  `help:"Only manifests after this number."`
}

// Run implements the command.
func (c *ShardsList) Run(ctx context.Context, out *Output) error {
	table := tabwriter.NewWriter(out.Out, 0, 4, 2, ' ', 0)
	if c.Policy == "" {
		var answer feed.Policies
		if err := c.call(ctx, http.MethodGet, "/v1/policies", nil, &answer); err != nil {
			return err
		}
		if out.JSON {
			return out.Object(answer.Policies)
		}
		fmt.Fprintln(table, "policy version\tshards\trows\ttrained tokens\tbytes\tlog time")
		for _, p := range answer.Policies {
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%s\n", p.PolicyVersion, p.Shards, p.Rows, p.TrainedTokens, p.Bytes, p.LogTime.Format(time.RFC3339))
		}
		return table.Flush()
	}
	if !out.JSON {
		fmt.Fprintln(table, "number\tid\trows\ttrained tokens\treward mean\tbytes\toffsets")
	}
	err := eachManifest(ctx, c.Remote, c.Policy, c.After, 0, func(s manifest.Shard) error {
		if out.JSON {
			return out.Object(s)
		}
		_, err := fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%+.3f\t%d\t%d-%d\n", s.Number, s.ID, s.Rows, s.TrainedTokens, s.RewardMean, s.Bytes, s.FirstOffset, s.LastOffset)
		return err
	})
	if err != nil {
		return err
	}
	return table.Flush()
}

// knownVersion refuses a policy version that has no shards, and names those that have.
func knownVersion(ctx context.Context, from Remote, version string) error {
	var all feed.Policies
	if err := from.call(ctx, http.MethodGet, "/v1/policies", nil, &all); err != nil {
		return err
	}
	names := make([]string, len(all.Policies))
	for i, p := range all.Policies {
		if p.PolicyVersion == version {
			return nil
		}
		names[i] = p.PolicyVersion
	}
	if len(names) == 0 {
		return fmt.Errorf("no policy version has shards yet: a turn settles twenty minutes after its end")
	}
	return fmt.Errorf("policy version %q has no shards; there are: %s", version, strings.Join(names, ", "))
}

// eachManifest visits the manifests of a policy version after a number, page by page, to the present end; with a wait it then
// goes on for ever.
func eachManifest(ctx context.Context, from Remote, policy string, after int64, wait time.Duration, visit func(manifest.Shard) error) error {
	if wait == 0 { // who waits may wait for a version's first shard
		if err := knownVersion(ctx, from, policy); err != nil {
			return err
		}
	}
	for {
		query := url.Values{"after": {strconv.FormatInt(after, 10)}}
		if wait > 0 {
			query.Set("wait", wait.String())
		}
		var page feed.Shards
		if err := from.call(ctx, http.MethodGet, "/v1/policies/"+url.PathEscape(policy)+"/shards?"+query.Encode(), nil, &page); err != nil {
			return err
		}
		for _, s := range page.Shards {
			if s.Number != after+1 {
				return fmt.Errorf("policy %s: number %d came after %d", policy, s.Number, after)
			}
			if err := visit(s); err != nil {
				return err
			}
			after = s.Number
		}
		if len(page.Shards) == 0 && wait == 0 {
			return nil
		}
	}
}

// ShardsCat is shards cat.
type ShardsCat struct {
	Remote `embed:""`
	Shard  string `arg:"" help:"A file (.arrow or .parquet), or the id of a shard on the server."`
}

// Run implements the command.
func (c *ShardsCat) Run(ctx context.Context, out *Output) error {
	body, err := os.ReadFile(c.Shard)
	if errors.Is(err, os.ErrNotExist) {
		body, err = c.fetch(ctx)
	}
	if err != nil {
		return err
	}
	if err := arrowfile.WriteJSON(out.Out, body); err != nil {
		return fmt.Errorf("%s: %w", c.Shard, err)
	}
	return nil
}

// fetch gets a whole shard; its ETag is its SHA-256.
func (c *ShardsCat) fetch(ctx context.Context) ([]byte, error) {
	res, err := c.open(ctx, http.MethodGet, "/v1/shards/"+url.PathEscape(c.Shard), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%s is neither a file here nor a shard there: %w", c.Shard, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", c.Shard, err)
	}
	if got := `"` + arrowfile.SHA256(body) + `"`; got != res.Header.Get("ETag") {
		return nil, fmt.Errorf("pulling %s: SHA-256 %s, the server says %s", c.Shard, got, res.Header.Get("ETag"))
	}
	return body, nil
}

// ShardsVerify is shards verify.
type ShardsVerify struct {
	Postgres string `env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Postgres, where the commits stand."`
	Objects  string `env:"MILLRACE_OBJECTS" placeholder:"URL" help:"Object store: a folder, or s3://bucket/prefix?endpoint=…"`
	Data     string `env:"MILLRACE_DATA" default:"./millrace-data" help:"Data folder of a local millrace up, which is meant if no place is said."`
}

// Run implements the command.
func (c *ShardsVerify) Run(ctx context.Context, out *Output) error {
	if c.Postgres == "" && c.Objects == "" {
		local, err := localPlaces(c.Data, "--postgres and --objects")
		if err != nil {
			return err
		}
		c.Postgres, c.Objects = local.Postgres, local.Objects
	}
	if c.Postgres == "" || c.Objects == "" {
		return usagef("missing: give both --postgres and --objects, or neither for the millrace up over --data")
	}
	store, err := objstore.Open(c.Objects)
	if err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, c.Postgres, "millrace shards verify")
	if err != nil {
		return err
	}
	defer pool.Close()
	report, err := feed.Verify(ctx, pool, store)
	if err != nil {
		return err
	}
	if out.JSON {
		if err := json.NewEncoder(out.Out).Encode(report); err != nil {
			return err
		}
	}
	for _, p := range report.Problems {
		out.Print("%s", p)
	}
	out.Print("%d shards with %d rows, %d ledger files with %d rows, %d bytes read", report.Shards, report.Rows, report.LedgerFiles, report.LedgerRows, report.Bytes)
	if n := len(report.Problems); n > 0 {
		return fmt.Errorf("%d files are not what was committed", n)
	}
	out.Print("all as committed")
	return nil
}
