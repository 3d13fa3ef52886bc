package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"millrace/schemas/manifest"
)

// ShardsPull is shards pull.
type ShardsPull struct {
	Remote `embed:""`
	Policy string `arg:"" help:"Policy version."`
	To     string `default:"." type:"path" help:"Folder for the files: ID.arrow."`
	After  int64  `help:"Only shards after this number."`
	Follow bool   `help:"Wait for further shards, until stopped."`
}

// Run implements the command.
func (c *ShardsPull) Run(ctx context.Context, out *Output) error {
	if err := os.MkdirAll(c.To, 0o755); err != nil {
		return fmt.Errorf("folder for the shards: %w", err)
	}
	wait := time.Duration(0)
	if c.Follow {
		wait = 30 * time.Second
	}
	var shards, rows, bytes int64
	err := eachManifest(ctx, c.Remote, c.Policy, c.After, wait, func(s manifest.Shard) error {
		path, err := pullShard(ctx, c.Remote, s, c.To)
		if err != nil {
			return fmt.Errorf("shard %d of %s (%s): %w", s.Number, c.Policy, s.ID, err)
		}
		shards, rows, bytes = shards+1, rows+s.Rows, bytes+s.Bytes
		if out.JSON {
			return out.Object(map[string]any{"number": s.Number, "id": s.ID, "path": path, "rows": s.Rows, "sha256": s.SHA256})
		}
		out.Print("%d  %s  %d rows", s.Number, path, s.Rows)
		return nil
	})
	if c.Follow && errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		return err
	}
	out.Print("%d shards, %d rows, %d bytes; each verified against its SHA-256", shards, rows, bytes)
	return nil
}

// pullShard downloads a shard, unless it is there already. What arrived of an attempt that broke stays beside it (.part), and
// the next one asks for the rest. The file gets its name only when its SHA-256 is right.
func pullShard(ctx context.Context, from Remote, s manifest.Shard, folder string) (string, error) {
	if filepath.Base(s.ID) != s.ID {
		return "", fmt.Errorf("an id that is no file name: %q", s.ID)
	}
	path := filepath.Join(folder, s.ID+".arrow")
	if digest, err := digestOf(path); err == nil && digest == s.SHA256 {
		return path, nil
	}
	part := path + ".part"
	const attempts = 5
	for attempt := 1; ; attempt++ {
		err := pullRest(ctx, from, s, part)
		if err == nil {
			break
		}
		var refused *apiError
		if attempt == attempts || ctx.Err() != nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(time.Duration(attempt) * 500 * time.Millisecond):
		}
	}
	digest, err := digestOf(part)
	if err != nil {
		return "", err
	}
	if digest != s.SHA256 {
		return "", errors.Join(fmt.Errorf("SHA-256 %s arrived, its manifest says %s", digest, s.SHA256), os.Remove(part))
	}
	return path, os.Rename(part, path)
}

// pullRest appends what is missing to the part of a file.
func pullRest(ctx context.Context, from Remote, s manifest.Shard, part string) (err error) {
	file, err := os.OpenFile(part, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have == s.Bytes {
		return file.Sync()
	}
	header := http.Header{}
	if have > 0 && have < s.Bytes {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		header.Set("If-Range", `"`+s.SHA256+`"`)
	}
	res, err := from.open(ctx, http.MethodGet, "/v1/shards/"+url.PathEscape(s.ID), nil, header)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusPartialContent {
		have = 0 // the whole file comes
		if err := file.Truncate(0); err != nil {
			return err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := io.Copy(file, io.LimitReader(res.Body, s.Bytes-have))
	if err == nil && have+n != s.Bytes {
		err = fmt.Errorf("%d bytes of %d: %w", have+n, s.Bytes, io.ErrUnexpectedEOF)
	}
	return errors.Join(err, file.Sync())
}

func digestOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
