package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"millrace/feed"
	"millrace/internal/arrowfile"
	"millrace/internal/objstore"
	"millrace/internal/postgres"
	"millrace/schemas/ledger"
)

// LedgerCommand looks at the ledger and pulls it.
type LedgerCommand struct {
	Files    LedgerFiles    `cmd:"" help:"The files that together hold every committed row once."`
	Pull     LedgerPull     `cmd:"" help:"Bring a folder up to date with them, verified: for DuckDB and other readers."`
	Schema   LedgerSchema   `cmd:"" help:"The columns: name, type, what they mean."`
	Survival LedgerSurvival `cmd:"" help:"Does the reward mean what it says? Its correlation with what is left of the edits a week later."`
}

// LedgerPlaces says where the ledger's files are. Beside a local `millrace up` nothing needs to be said.
type LedgerPlaces struct {
	Postgres string `env:"MILLRACE_POSTGRES" placeholder:"URL" help:"Postgres, where the commits stand."`
	Objects  string `env:"MILLRACE_OBJECTS" placeholder:"URL" help:"Object store: a folder, or s3://bucket/prefix?endpoint=…"`
	Data     string `env:"MILLRACE_DATA" default:"./millrace-data" help:"Data folder of a local millrace up, which is meant if no place is said."`
}

// open connects to both places; the caller closes the pool.
func (p LedgerPlaces) open(ctx context.Context, command string) (*pgxpool.Pool, objstore.Bucket, error) {
	if p.Postgres == "" && p.Objects == "" {
		local, err := localPlaces(p.Data, "--postgres and --objects")
		if err != nil {
			return nil, nil, err
		}
		p.Postgres, p.Objects = local.Postgres, local.Objects
	}
	if p.Postgres == "" || p.Objects == "" {
		return nil, nil, usagef("missing: give both --postgres and --objects, or neither for the millrace up over --data")
	}
	store, err := objstore.Open(p.Objects)
	if err != nil {
		return nil, nil, err
	}
	pool, err := postgres.Open(ctx, p.Postgres, "millrace "+command)
	return pool, store, err
}

// Window is a part of the ledger by log time.
type Window struct {
	From moment `placeholder:"TIME" help:"Only what settled at or after this: 2026-03-01 or 2026-03-01T12:00:00Z. Where files are listed or copied: files with such rows."`
	To   moment `placeholder:"TIME" help:"Only what settled before this."`
}

// files are the window's, of all topics.
func (w Window) files(ctx context.Context, pool *pgxpool.Pool) ([]feed.LedgerFile, error) {
	if err := w.check(); err != nil {
		return nil, err
	}
	files, err := feed.LedgerFiles(ctx, pool)
	return feed.Between(files, time.Time(w.From), time.Time(w.To)), err
}

func (w Window) check() error {
	if from, to := time.Time(w.From), time.Time(w.To); !to.IsZero() && !from.Before(to) {
		return usagef("--from %s is not before --to %s", from.Format(time.RFC3339), to.Format(time.RFC3339))
	}
	return nil
}

// has says whether the row settled in the window.
func (w Window) has(row *ledger.Row) bool {
	from, to := time.Time(w.From), time.Time(w.To)
	return !row.SettledAt.Before(from) && (to.IsZero() || row.SettledAt.Before(to))
}

// LedgerSource is ledger files: those of the house, or some on disk.
type LedgerSource struct {
	LedgerPlaces `embed:""`
	Window       `embed:""`
	Paths        []string `arg:"" optional:"" placeholder:"PATH" help:"Ledger files, or folders of them as of ledger pull, instead of the house's own."`
}

// each visits the files, one after the other: the house's in the order of the log, of the window only, and those on disk
// as they are named.
func (s LedgerSource) each(ctx context.Context, command string, visit func(*arrowfile.LedgerReader) error) error {
	if len(s.Paths) > 0 {
		return s.onDisk(ctx, visit)
	}
	pool, store, err := s.open(ctx, command)
	if err != nil {
		return err
	}
	defer pool.Close()
	files, err := s.files(ctx, pool)
	if err != nil {
		return err
	}
	for _, l := range files {
		body, err := l.Get(ctx, store)
		if err != nil {
			return err
		}
		if err := visitLedger(bytes.NewReader(body), visit); err != nil {
			return fmt.Errorf("%s: %w", l.Key, err)
		}
	}
	return nil
}

func (s LedgerSource) onDisk(ctx context.Context, visit func(*arrowfile.LedgerReader) error) error {
	if err := s.check(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, named := range s.Paths {
		path, err := filepath.EvalSymlinks(named)
		if err != nil {
			return err
		}
		found := false
		err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || (name != path && !strings.HasSuffix(name, ".parquet")) {
				return err
			}
			found = true
			if err := ctx.Err(); err != nil {
				return err
			}
			absolute, err := filepath.EvalSymlinks(name)
			if err == nil {
				absolute, err = filepath.Abs(absolute)
			}
			if err != nil {
				return err
			}
			if seen[absolute] {
				return usagef("%s is named twice: its turns would count twice", name)
			}
			seen[absolute] = true
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer file.Close()
			if err := visitLedger(file, visit); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !found {
			return usagef("%s holds no Parquet file: pull the ledger with `millrace ledger pull`", path)
		}
	}
	return nil
}

func visitLedger(body arrowfile.Body, visit func(*arrowfile.LedgerReader) error) error {
	file, err := arrowfile.OpenLedger(body)
	if err != nil {
		return err
	}
	return visit(file)
}

// rows are those that settled in the window.
func (s LedgerSource) rows(ctx context.Context, command string) ([]ledger.Row, error) {
	var rows []ledger.Row
	err := s.each(ctx, command, func(file *arrowfile.LedgerReader) error {
		return file.Each(func(some []ledger.Row) error {
			for i := range some {
				if s.has(&some[i]) {
					rows = append(rows, some[i])
				}
			}
			return nil
		})
	})
	return rows, err
}

// moment is a time as a flag: a day (its beginning, UTC) or a time with its zone.
type moment time.Time

// UnmarshalText reads one.
func (m *moment) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, string(text)); err == nil {
			*m = moment(t.UTC())
			return nil
		}
	}
	return fmt.Errorf("%q is no time: give a day, 2026-03-01, or a time with its zone, 2026-03-01T12:00:00Z", text)
}

// LedgerFiles is ledger files.
type LedgerFiles struct {
	LedgerPlaces `embed:""`
	Window       `embed:""`
}

// Run implements the command.
func (c *LedgerFiles) Run(ctx context.Context, out *Output) error {
	pool, store, err := c.open(ctx, "ledger files")
	if err != nil {
		return err
	}
	defer pool.Close()
	files, err := c.files(ctx, pool)
	if err != nil {
		return err
	}
	if out.JSON {
		return out.Object(files)
	}
	var rows, bytes int64
	err = table(out.Out, func(line func(...any)) {
		line("from, log time", "span", "rows", "bytes", "key")
		for _, l := range files {
			rows, bytes = rows+l.Rows, bytes+l.Bytes
			line(minute(l.Start), l.Span, l.Rows, l.Bytes, l.Key)
		}
	})
	if err != nil {
		return err
	}
	out.Print("%d files with %d rows, %d bytes, in %s", len(files), rows, bytes, store)
	return nil
}

// LedgerSchema is ledger schema.
type LedgerSchema struct{}

// Run implements the command.
func (*LedgerSchema) Run(out *Output) error {
	if out.JSON {
		columns := make([]map[string]any, len(ledger.Columns))
		for i, c := range ledger.Columns {
			columns[i] = map[string]any{"name": c.Name, "type": c.Type, "nullable": c.Nullable, "doc": c.Doc}
		}
		return out.Object(map[string]any{"schema_version": ledger.SchemaVersion, "columns": columns})
	}
	out.Print("schema version %s, as in each file's metadata (millrace.schema); a null was not observed, and is never 0", ledger.SchemaVersion)
	return table(out.Out, func(line func(...any)) {
		for _, c := range ledger.Columns {
			null := ""
			if c.Nullable {
				null = "null"
			}
			line(c.Name, c.Type, null, c.Doc)
		}
	})
}
