package candidate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"millrace/internal/objstore"
)

// Places opens weights where they lie, and only in the places that the server was told of: whoever hands in a
// submission writes its URI, and the server must not become their eyes on its disks and its network.
type Places struct {
	own     objstore.Store
	folders []string // absolute
	buckets []bucket
}

type bucket struct {
	url   string // s3://name/prefix/
	store objstore.Store
}

// NewPlaces takes Millrace's own object store, and roots besides: absolute folders, or
// s3://bucket/prefix?endpoint=… with what the client needs to know.
func NewPlaces(own objstore.Store, roots []string) (Places, error) {
	p := Places{own: own}
	if named, ok := own.(fmt.Stringer); ok {
		if at := named.String(); filepath.IsAbs(at) {
			p.folders = append(p.folders, at)
		} else {
			p.buckets = append(p.buckets, bucket{at, own})
		}
	}
	for _, root := range roots {
		switch {
		case strings.HasPrefix(root, "s3://"):
			store, err := objstore.Open(root)
			if err != nil {
				return p, fmt.Errorf("weights root: %w", err)
			}
			p.buckets = append(p.buckets, bucket{store.String(), store})
		case filepath.IsAbs(root):
			p.folders = append(p.folders, filepath.Clean(root))
		default:
			return p, fmt.Errorf("weights root %q: give an absolute folder, or s3://bucket/prefix", root)
		}
	}
	return p, nil
}

// Open opens one file below uri: a key in the own object store (no scheme), "file:///…" or "s3://…" in one of the
// places. Anywhere else is ErrUnreachable.
func (p Places) Open(ctx context.Context, uri, file string) (io.ReadCloser, error) {
	u, err := plainURI(uri)
	if err != nil {
		return nil, fmt.Errorf("%w: weights_uri %w", ErrUnreachable, err)
	}
	switch u.Scheme {
	case "":
		return open(ctx, p.own, path.Join(strings.Trim(u.Path, "/"), file))
	case "s3":
		for _, b := range p.buckets {
			if below, ok := strings.CutPrefix("s3://"+u.Host+strings.TrimSuffix(u.Path, "/")+"/", b.url); ok {
				return open(ctx, b.store, path.Join(below, file))
			}
		}
	case "file":
		for _, root := range p.folders {
			below, err := filepath.Rel(root, filepath.FromSlash(u.Path))
			if err == nil && u.Host == "" && filepath.IsLocal(below) {
				return openLocal(root, filepath.Join(below, filepath.FromSlash(file)))
			}
		}
	default:
		return nil, fmt.Errorf("%w: no reader for %s://", ErrUnreachable, u.Scheme)
	}
	return nil, fmt.Errorf("%w: %s is below no --weights-root", ErrUnreachable, u)
}

// plainURI parses a weights_uri. It becomes part of events and manifests, so it must not carry a secret, and which
// server is asked for a bucket is not for a submission to say.
func plainURI(uri string) (*url.URL, error) {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Opaque != "":
		return nil, errors.New("is not a URI") // the parser's message would repeat it
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("has more than a place: no credentials, no ?settings, no #fragment")
	}
	return u, nil
}

func open(ctx context.Context, store objstore.Store, key string) (io.ReadCloser, error) {
	body, err := store.Open(ctx, key, 0, -1)
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrKey) {
		return nil, fmt.Errorf("%w: %w", ErrNoFile, err)
	}
	return body, err
}

// openLocal opens a regular file, and never leaves the root, by a symbolic link neither.
func openLocal(folder, file string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer root.Close()
	// A pipe would block here until somebody writes to it.
	body, err := root.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	// What is no answer of the system is the root's own: the path leads out of it.
	var answer syscall.Errno
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err != nil && !errors.As(err, &answer) {
		return nil, fmt.Errorf("%w: %w", ErrNoFile, err)
	}
	if err != nil {
		return nil, err
	}
	info, err := body.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrNoFile, file)
	}
	if err != nil {
		_ = body.Close()
		return nil, err
	}
	return body, nil
}
