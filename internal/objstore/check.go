package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// check proves what the exactly-once protocol rests on: that a put is read back, and that a second one with
// another body is refused. Some S3 imitations ignore If-None-Match without a word.
func check(ctx context.Context, b Bucket) (err error) {
	key := "probe/" + rand.Text()
	first, second := []byte("first"), []byte("second")
	if err := b.PutIfAbsent(ctx, key, first); err != nil {
		return fmt.Errorf("check of the object store: %w", err)
	}
	defer func() { err = errors.Join(err, b.Delete(context.WithoutCancel(ctx), key)) }()
	if err := b.PutIfAbsent(ctx, key, second); !errors.Is(err, ErrExists) {
		if err != nil {
			return fmt.Errorf("check of the object store: %w", err)
		}
		return fmt.Errorf("check of the object store %s: it overwrites objects in spite of If-None-Match; use one that supports conditional writes", b)
	}
	got, err := b.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("check of the object store: %w", err)
	}
	if !bytes.Equal(got, first) {
		return fmt.Errorf("check of the object store %s: it gave back other bytes than were written", b)
	}
	return nil
}
