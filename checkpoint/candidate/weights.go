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
	"strings"

	"millrace/internal/objstore"
)

// Places opens weights where they lie: in Millrace's own object store (a key, no scheme), in a local folder
// ("file:///…"), in a bucket ("s3://…").
type Places struct {
	Own objstore.Store
}

// Open opens one file below uri.
func (p Places) Open(ctx context.Context, uri, file string) (io.ReadCloser, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fmt.Errorf("%w: weights_uri is not a URI", ErrUnreachable)
	}
	switch u.Scheme {
	case "":
		return open(ctx, p.Own, path.Join(strings.Trim(uri, "/"), file))
	case "s3":
		bucket, err := objstore.Open(uri)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return open(ctx, bucket, file)
	case "file":
		return openLocal(u.Path, file)
	}
	return nil, fmt.Errorf("%w: no reader for %s://", ErrUnreachable, u.Scheme)
}

func open(ctx context.Context, store objstore.Store, key string) (io.ReadCloser, error) {
	body, err := store.Open(ctx, key, 0, -1)
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrKey) {
		return nil, fmt.Errorf("%w: %w", ErrNoFile, err)
	}
	return body, err
}

// openLocal never leaves the folder, by a symbolic link neither.
func openLocal(folder, file string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, local(err)
	}
	defer root.Close()
	body, err := root.Open(file)
	if err != nil {
		return nil, local(err)
	}
	return body, nil
}

func local(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrNoFile, err)
	}
	return err
}
