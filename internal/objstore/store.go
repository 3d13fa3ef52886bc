package objstore

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Store is what most readers and writers need. All methods may be called concurrently, also from several
// processes on one folder or bucket.
type Store interface {
	// PutIfAbsent writes a whole object durably, or nothing. An equal object already there is success,
	// another one is ErrExists.
	PutIfAbsent(ctx context.Context, key string, body []byte) error
	// Get reads a whole object; ErrNotFound if there is none.
	Get(ctx context.Context, key string) ([]byte, error)
	// Open reads length bytes from offset on, or to the end if length is -1; it is cut at the object's end.
	// ErrNotFound; ErrRange if the offset is negative or behind the end.
	Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)
	// Stat gives the object's size in bytes; ErrNotFound if there is none.
	Stat(ctx context.Context, key string) (size int64, err error)
	// List gives all keys that begin with the prefix, sorted by bytes; the empty prefix lists all.
	List(ctx context.Context, prefix string) ([]string, error)
}

// Bucket is a Store whose objects can also be replaced and deleted: for pointers and garbage collection.
type Bucket interface {
	Store
	// Replace writes an object over whatever is there; a reader sees the old one or the new one.
	Replace(ctx context.Context, key string, body []byte) error
	// Delete removes an object; one that isn't there is success.
	Delete(ctx context.Context, key string) error
	// Check writes, reads and deletes a probe and says in words what is wrong.
	Check(ctx context.Context) error
	// String is the place in words, without credentials.
	String() string
}

var (
	_ Bucket = (*Folder)(nil)
	_ Bucket = (*S3)(nil)
)

// Open opens a store by its URL: a folder ("/var/lib/millrace", "./data", "file:///var/lib/millrace"),
// or a bucket ("s3://bucket/prefix?region=eu-central-1", for others than AWS with &endpoint=http://host:9000).
// Credentials of S3 come from "s3://key:secret@bucket", or else from where every S3 client looks: AWS_* variables, the
// shared credentials file, the machine's role.
func Open(location string) (Bucket, error) {
	if location == "" {
		return nil, fmt.Errorf("objects: no location; give a folder or s3://bucket/prefix")
	}
	if !strings.Contains(location, "://") {
		return NewFolder(location)
	}
	u, err := url.Parse(location)
	if err != nil {
		// The parser's message repeats the URL, and with it a secret.
		return nil, fmt.Errorf("objects: not a URL; give a folder or s3://bucket/prefix?endpoint=http://host:9000")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return nil, fmt.Errorf("objects %s: a file URL has three slashes: file:///%s%s", u.Redacted(), u.Host, u.Path)
		}
		return NewFolder(u.Path)
	case "s3":
		cfg, err := s3ConfigOf(u)
		if err != nil {
			return nil, err
		}
		return NewS3(cfg)
	}
	return nil, fmt.Errorf("objects %s: unknown scheme %q; there are file and s3", u.Redacted(), u.Scheme)
}

const (
	maxKey     = 1024 // S3's limit
	maxSegment = 255  // of every common file system
	tempFolder = ".tmp"
)

// checkKey refuses keys that one of the stores could not hold, or that would leave the folder.
func checkKey(key string) error {
	if key == "" || len(key) > maxKey || !utf8.ValidString(key) {
		return fmt.Errorf("key %.80q: %w: 1 to %d bytes of UTF-8", key, ErrKey, maxKey)
	}
	for i := 0; i < len(key); i++ {
		if key[i] < 0x20 || key[i] == 0x7f || key[i] == '\\' {
			return fmt.Errorf("key %.80q: %w: a control character or backslash at %d", key, ErrKey, i)
		}
	}
	for i, s := range strings.Split(key, "/") {
		if s == "" || s == "." || s == ".." || len(s) > maxSegment || (i == 0 && s == tempFolder) {
			return fmt.Errorf("key %.80q: %w: segment %d is empty, reserved or longer than %d bytes", key, ErrKey, i, maxSegment)
		}
	}
	return nil
}
