package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"
)

// Folder keeps objects as files below one folder.
type Folder struct{ root string }

// NewFolder opens a folder and makes it if it isn't there. Pieces of writes that a crash left
// behind more than a day ago are removed.
func NewFolder(dir string) (*Folder, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("objects folder %s: %w", dir, err)
	}
	f := &Folder{root: root}
	if err := os.MkdirAll(filepath.Join(root, tempFolder), 0o755); err != nil {
		return nil, f.wrap("open", "", err)
	}
	pieces, err := os.ReadDir(filepath.Join(root, tempFolder))
	if err != nil {
		return nil, f.wrap("open", "", err)
	}
	for _, p := range pieces {
		if info, err := p.Info(); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.Remove(filepath.Join(root, tempFolder, p.Name()))
		}
	}
	return f, nil
}

// String is the folder's path.
func (f *Folder) String() string { return f.root }

// PutIfAbsent writes a file that wasn't there: the bytes are on the disk before the name is (hard link), and
// the name is on the disk before the call returns.
func (f *Folder) PutIfAbsent(ctx context.Context, key string, body []byte) error {
	return f.put(ctx, key, body, func(temp, path string) error {
		err := os.Link(temp, path)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		there, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(there, body) {
			return ErrExists
		}
		return nil // the former writer may have died before it synced the name: that is done again
	})
}

// Replace writes a file over whatever is there, by a rename.
func (f *Folder) Replace(ctx context.Context, key string, body []byte) error {
	return f.put(ctx, key, body, os.Rename)
}

func (f *Folder) put(ctx context.Context, key string, body []byte, name func(temp, path string) error) (err error) {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	path := f.path(key)
	if err := f.makeParents(filepath.Dir(path)); err != nil {
		return f.wrap("put", key, err)
	}
	temp, err := os.CreateTemp(filepath.Join(f.root, tempFolder), "put-*")
	if err != nil {
		return f.wrap("put", key, err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(body)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if err == nil {
		err = temp.Sync()
	}
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = name(temp.Name(), path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	return f.wrap("put", key, err)
}

// makeParents makes the folders between the root and a file, durably. It never makes the root itself: a root
// that vanished is a disk that isn't mounted, and what is written in its place would be lost.
func (f *Folder) makeParents(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if dir == f.root {
		return fmt.Errorf("%w: the folder is gone (is the disk mounted?)", ErrUnavailable)
	}
	if err := f.makeParents(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Get reads a whole file.
func (f *Folder) Get(ctx context.Context, key string) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	body, err := os.ReadFile(f.path(key))
	return body, f.wrap("get", key, err)
}

// Open reads a part of a file.
func (f *Folder) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	size, err := f.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if offset < 0 || offset > size || length < -1 {
		return nil, fmt.Errorf("open %s in %s: %w: offset %d, length %d of %d bytes", key, f, ErrRange, offset, length, size)
	}
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, f.wrap("open", key, err)
	}
	if length < 0 || length > size-offset {
		length = size - offset
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, offset, length), file}, nil
}

// Stat gives a file's size.
func (f *Folder) Stat(ctx context.Context, key string) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	info, err := os.Stat(f.path(key))
	if err != nil {
		return 0, f.wrap("stat", key, err)
	}
	if !info.Mode().IsRegular() {
		return 0, f.wrap("stat", key, ErrNotFound)
	}
	return info.Size(), nil
}

// List walks the folders that can hold the prefix.
func (f *Folder) List(ctx context.Context, prefix string) ([]string, error) {
	start := f.root
	if i := strings.LastIndexByte(prefix, '/'); i > 0 {
		if err := checkKey(prefix[:i]); err != nil {
			return nil, err
		}
		start = f.path(prefix[:i])
	}
	keys := []string{}
	err := filepath.WalkDir(start, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && path != f.root {
				return nil // nothing there, or deleted while the walk went by
			}
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		key := filepath.ToSlash(rel)
		if d.IsDir() {
			if key == tempFolder {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return nil
	})
	if err == nil {
		_, err = os.Stat(f.root)
	}
	sort.Strings(keys)
	return keys, f.wrap("list", prefix, err)
}

// Delete removes a file.
func (f *Folder) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := os.Remove(f.path(key))
	if errors.Is(err, fs.ErrNotExist) && f.present() {
		return nil
	}
	return f.wrap("delete", key, err)
}

// Check writes, reads and deletes a probe.
func (f *Folder) Check(ctx context.Context) error { return check(ctx, f) }

func (f *Folder) path(key string) string { return filepath.Join(f.root, filepath.FromSlash(key)) }

func (f *Folder) present() bool {
	_, err := os.Stat(f.root)
	return err == nil
}

// wrap says what was done, where, and turns the system's reasons into those that callers tell apart.
func (f *Folder) wrap(what, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = fmt.Errorf("%w: free some space, it goes on by itself (%w)", ErrFull, err)
	case errors.Is(err, fs.ErrNotExist) && !f.present():
		err = fmt.Errorf("%w: the folder is gone (is the disk mounted?)", ErrUnavailable)
	case errors.Is(err, fs.ErrNotExist) && (what == "put" || what == "open" && key == ""):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR) && what != "put", errors.Is(err, syscall.EISDIR) && what == "get":
		err = ErrNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		err = fmt.Errorf("%w: give this user the right to write there, it goes on by itself (%w)", ErrUnavailable, err)
	}
	if key == "" {
		return fmt.Errorf("%s objects folder %s: %w", what, f.root, err)
	}
	return fmt.Errorf("%s %s in %s: %w", what, key, f.root, err)
}
