package candidate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Weights opens a file of a candidate's weights. ErrUnreachable: this process can't read such a place at all;
// ErrNoFile: the place is there and the file is not. Any other error may pass when tried again.
type Weights interface {
	Open(ctx context.Context, uri, path string) (io.ReadCloser, error)
}

// What Weights tell apart.
var (
	ErrUnreachable = errors.New("the weights can't be reached from here")
	ErrNoFile      = errors.New("no such file")
)

// Verify recomputes every file's digest where the store can be reached. It gives a *Refusal for files that are not
// what was declared, and says in words what could not be checked.
func Verify(ctx context.Context, w Weights, s *Submission) (note string, err error) {
	for _, f := range s.Files {
		err := verifyFile(ctx, w, s.WeightsURI, f)
		if errors.Is(err, ErrUnreachable) {
			return fmt.Sprintf("digests as declared, not recomputed: %v", err), nil
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("all %d digests recomputed", len(s.Files)), nil
}

func verifyFile(ctx context.Context, w Weights, uri string, f File) error {
	body, err := w.Open(ctx, uri, f.Path)
	if errors.Is(err, ErrNoFile) {
		return refuse(FileMissing, f.Path, "%s is declared, but not at %s: %v", f.Path, uri, err)
	}
	if err != nil {
		return err
	}
	defer body.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(whileWanted{ctx, body}, f.Bytes+1))
	if err != nil {
		return fmt.Errorf("read %s at %s: %w", f.Path, uri, err)
	}
	if n > f.Bytes {
		return refuse(DigestMismatch, f.Path, "%s is longer at %s than the %d bytes declared", f.Path, uri, f.Bytes)
	}
	if n < f.Bytes {
		return refuse(DigestMismatch, f.Path, "%s has %d bytes at %s, declared were %d", f.Path, n, uri, f.Bytes)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return refuse(DigestMismatch, f.Path, "SHA-256 of %s is %s at %s, declared was %s", f.Path, got, uri, f.SHA256)
	}
	return nil
}

// whileWanted ends with its context: a read of a local file knows none.
type whileWanted struct {
	ctx  context.Context
	body io.Reader
}

func (r whileWanted) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.body.Read(p)
}
