package objstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"sort"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Config says which bucket, and how to reach it.
type S3Config struct {
	Bucket    string // required
	Prefix    string // of every key, without slashes at its ends; empty: the bucket's top
	Endpoint  string // URL of the server; empty: AWS
	Region    string // empty: asked for, or us-east-1 for servers that don't know regions
	AccessKey string // empty: where every S3 client looks
	SecretKey string
	Transport http.RoundTripper // nil: the client's own
}

// Validate says what is missing.
func (c S3Config) Validate() error {
	if c.Bucket == "" {
		return fmt.Errorf("objects: no bucket; give s3://bucket/prefix")
	}
	if c.Prefix != "" {
		if err := checkKey(c.Prefix); err != nil {
			return fmt.Errorf("objects s3://%s: prefix: %w", c.Bucket, err)
		}
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return fmt.Errorf("objects s3://%s: give both an access key and a secret, or neither", c.Bucket)
	}
	return nil
}

func s3ConfigOf(u *url.URL) (S3Config, error) {
	cfg := S3Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	if u.User != nil {
		cfg.AccessKey = u.User.Username()
		cfg.SecretKey, _ = u.User.Password()
	}
	for name, values := range u.Query() {
		switch name {
		case "endpoint":
			cfg.Endpoint = values[0]
		case "region":
			cfg.Region = values[0]
		default:
			return S3Config{}, fmt.Errorf("objects s3://%s: unknown setting %q; there are endpoint and region", u.Host, name)
		}
	}
	return cfg, nil
}

// S3 keeps objects in one bucket of anything that speaks S3 and honours If-None-Match on a put.
type S3 struct {
	core   minio.Core
	bucket string
	prefix string // "" or with a slash at its end
}

// NewS3 makes the client; it doesn't talk to the server yet (see Check).
func NewS3(cfg S3Config) (*S3, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	host, secure := "s3.amazonaws.com", true
	if cfg.Endpoint != "" {
		u, err := url.Parse(cfg.Endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("objects s3://%s: endpoint %q: give http://host:port or https://host", cfg.Bucket, cfg.Endpoint)
		}
		host, secure = u.Host, u.Scheme == "https"
	}
	who := credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, "")
	if cfg.AccessKey == "" {
		who = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		})
	}
	core, err := minio.NewCore(host, &minio.Options{Creds: who, Secure: secure, Region: cfg.Region, Transport: cfg.Transport, MaxRetries: 3})
	if err != nil {
		return nil, fmt.Errorf("objects s3://%s: %w", cfg.Bucket, err)
	}
	s := &S3{core: *core, bucket: cfg.Bucket}
	if cfg.Prefix != "" {
		s.prefix = cfg.Prefix + "/"
	}
	return s, nil
}

// String is the bucket's URL without credentials.
func (s *S3) String() string { return "s3://" + s.bucket + "/" + s.prefix }

// PutIfAbsent writes an object in one conditional request, so that the server decides who was first.
func (s *S3) PutIfAbsent(ctx context.Context, key string, body []byte) error {
	options := minio.PutObjectOptions{}
	options.SetMatchETagExcept("*")
	err := s.put(ctx, key, body, options)
	if answerOf(err).StatusCode != http.StatusPreconditionFailed {
		return s.wrap("put", key, err)
	}
	there, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	if !bytes.Equal(there, body) {
		return s.wrap("put", key, ErrExists)
	}
	return nil
}

// Replace writes an object over whatever is there.
func (s *S3) Replace(ctx context.Context, key string, body []byte) error {
	return s.wrap("put", key, s.put(ctx, key, body, minio.PutObjectOptions{}))
}

func (s *S3) put(ctx context.Context, key string, body []byte, options minio.PutObjectOptions) error {
	if err := checkKey(key); err != nil {
		return err
	}
	digest := sha256.Sum256(body)
	options.DisableContentSha256 = true // not chunk by chunk: the whole body's digest is signed, and the server verifies it
	_, err := s.core.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(body), int64(len(body)), "", hex.EncodeToString(digest[:]), options)
	return err
}

// Get reads a whole object.
func (s *S3) Get(ctx context.Context, key string) ([]byte, error) {
	body, err := s.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	return b, s.wrap("get", key, err)
}

// Open reads a part of an object.
func (s *S3) Open(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if offset < 0 || length < -1 {
		return nil, fmt.Errorf("open %s in %s: %w: offset %d, length %d", key, s, ErrRange, offset, length)
	}
	if length == 0 {
		return s.nothing(ctx, key, offset)
	}
	options := minio.GetObjectOptions{}
	if offset > 0 || length > 0 {
		end := int64(0) // to minio: from offset to the end
		if length > 0 {
			end = offset + min(length, math.MaxInt64-offset) - 1
		}
		if err := options.SetRange(offset, end); err != nil {
			return nil, fmt.Errorf("open %s in %s: %w: %w", key, s, ErrRange, err)
		}
	}
	body, _, _, err := s.core.GetObject(ctx, s.bucket, s.prefix+key, options)
	if answerOf(err).StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return s.nothing(ctx, key, offset)
	}
	if err != nil {
		return nil, s.wrap("open", key, err)
	}
	return body, nil
}

// nothing is an empty range, which HTTP can't ask for: right at or before the object's end, wrong behind it.
func (s *S3) nothing(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	size, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if offset > size {
		return nil, fmt.Errorf("open %s in %s: %w: offset %d of %d bytes", key, s, ErrRange, offset, size)
	}
	return io.NopCloser(bytes.NewReader(nil)), nil
}

// Stat gives an object's size.
func (s *S3) Stat(ctx context.Context, key string) (int64, error) {
	if err := checkKey(key); err != nil {
		return 0, err
	}
	info, err := s.core.StatObject(ctx, s.bucket, s.prefix+key, minio.StatObjectOptions{})
	return info.Size, s.wrap("stat", key, err)
}

// List asks page by page.
func (s *S3) List(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the client's goroutine when this returns early
	keys := []string{}
	for object := range s.core.Client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if object.Err != nil {
			return nil, s.wrap("list", prefix, object.Err)
		}
		keys = append(keys, strings.TrimPrefix(object.Key, s.prefix))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sort.Strings(keys)
	return keys, nil
}

// Delete removes an object.
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return s.wrap("delete", key, s.core.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}))
}

// Check writes, reads and deletes a probe.
func (s *S3) Check(ctx context.Context) error { return check(ctx, s) }

// answerOf is the server's answer, if the error is one.
func answerOf(err error) minio.ErrorResponse {
	var answer minio.ErrorResponse
	_ = errors.As(err, &answer)
	return answer
}

func (s *S3) wrap(what, key string, err error) error {
	if err == nil || errors.Is(err, ErrKey) {
		return err
	}
	switch answer := answerOf(err); {
	case answer.Code == minio.NoSuchKey, what != "put" && answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket:
		err = ErrNotFound
	case answer.Code == minio.NoSuchBucket:
		err = fmt.Errorf("%w: make the bucket first", err)
	case answer.StatusCode == http.StatusInsufficientStorage:
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%s %s in %s: %w", what, key, s, err)
}
