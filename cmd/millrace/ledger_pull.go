package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"millrace/feed"
	"millrace/internal/objstore"
)

// LedgerPull is ledger pull.
type LedgerPull struct {
	LedgerPlaces `embed:""`
	Window       `embed:""`
	Dir          string `arg:"" optional:"" default:"ledger" type:"path" help:"Folder for the files; of an earlier pull, which is brought up to date, or new."`
}

// Help is what 'millrace ledger pull --help' adds.
func (*LedgerPull) Help() string {
	return `Afterwards the folder holds every committed row of the window once, also of the hour that isn't over, and nothing else: files that
were compacted into longer ones since the last pull go. Only what is new is copied; each file is checked against the SHA-256 that was committed.

  millrace ledger pull                       everything, into ./ledger
  millrace ledger pull march --from 2026-03-01 --to 2026-04-01
  duckdb -c "select disposition, count(*) from 'ledger/*.parquet' where kind = 'turn' group by 1"`
}

// pulledFile lists what a pull wrote, so that the next one knows what it may replace.
const pulledFile = "files.json"

// Run implements the command.
func (c *LedgerPull) Run(ctx context.Context, out *Output) error {
	pool, store, err := c.open(ctx, "ledger pull")
	if err != nil {
		return err
	}
	defer pool.Close()
	former, err := pulledBefore(c.Dir)
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		files, err := c.files(ctx, pool)
		if err != nil {
			return err
		}
		pulled, err := pullLedger(ctx, store, files, former, c.Dir)
		if errors.Is(err, objstore.ErrNotFound) && tries < 3 {
			former = append(former, files...)
			continue // compacted, and longer ago than the grace period: the new list has its rows elsewhere
		}
		if err != nil {
			return fmt.Errorf("pulling the ledger: %w", err)
		}
		if out.JSON {
			return out.Object(pulled)
		}
		out.Print("%d files with %d rows in %s; %d are new, %d went; each verified against its SHA-256", pulled.Files, pulled.Rows, c.Dir, pulled.New, pulled.Gone)
		return nil
	}
}

// pulled is what a pull did.
type pulled struct {
	Files int   `json:"files"` // in the folder now
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	New   int   `json:"new"`
	Gone  int   `json:"gone"` // were compacted into others, or lie outside the window
}

// pullLedger makes the folder hold these files, and none of an earlier pull besides.
func pullLedger(ctx context.Context, store objstore.Store, files, former []feed.LedgerFile, dir string) (pulled, error) {
	p := pulled{Files: len(files)}
	// Before the first file comes: one that broke off must be able to go on.
	if err := writeList(dir, append(append([]feed.LedgerFile{}, former...), files...)); err != nil {
		return p, err
	}
	wanted := map[string]bool{}
	for _, l := range files {
		name := path.Base(l.Key)
		if wanted[name] {
			return p, fmt.Errorf("two files are named %s", name)
		}
		wanted[name] = true
		p.Rows, p.Bytes = p.Rows+l.Rows, p.Bytes+l.Bytes
		target := filepath.Join(dir, name)
		if digest, err := digestOf(target); err == nil && digest == l.SHA256 {
			continue
		}
		body, err := l.Get(ctx, store)
		if err != nil {
			return p, err
		}
		if err := writeWhole(target, body); err != nil {
			return p, err
		}
		p.New++
	}
	for _, l := range former {
		name := path.Base(l.Key)
		if wanted[name] {
			continue
		}
		wanted[name] = true // a list may name one twice
		switch err := os.Remove(filepath.Join(dir, name)); {
		case err == nil:
			p.Gone++
		case !errors.Is(err, fs.ErrNotExist):
			return p, err
		}
	}
	return p, writeList(dir, files)
}

// pulledBefore makes the folder and gives what earlier pulls may have left in it. Another's Parquet files would be
// read with the ledger's: that is refused.
func pulledBefore(dir string) ([]feed.LedgerFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder for the ledger: %w", err)
	}
	var former []feed.LedgerFile
	body, err := os.ReadFile(filepath.Join(dir, pulledFile))
	if err == nil {
		err = json.Unmarshal(body, &former)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; delete the folder, or choose another one", filepath.Join(dir, pulledFile), err)
	}
	ours := map[string]bool{}
	for _, l := range former {
		ours[path.Base(l.Key)] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("folder for the ledger: %w", err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".parquet") && !ours[e.Name()] {
			return nil, usagef("%s holds %s, which no pull has left there: its rows would be read with the ledger's; choose another folder", dir, e.Name())
		}
	}
	return former, nil
}

func writeList(dir string, files []feed.LedgerFile) error {
	if files == nil {
		files = []feed.LedgerFile{}
	}
	body, err := json.MarshalIndent(files, "", " ")
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, pulledFile), body)
}

// writeWhole writes a file that has its name only when it is whole.
func writeWhole(target string, body []byte) error {
	part := target + ".part"
	if err := os.WriteFile(part, body, 0o644); err != nil {
		return err
	}
	return os.Rename(part, target)
}
