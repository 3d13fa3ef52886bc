package objstore

import (
	"context"
	"errors"
	"io"
)

// Reader reads an object from any place, as http.ServeContent does for ranges: a seek costs nothing until the next
// read. It is for one goroutine.
type Reader struct {
	ctx   context.Context // of the request that reads it
	store Store
	key   string
	size  int64
	at    int64
	body  io.ReadCloser // open at at, or nil
}

// NewReader makes a reader of an object of a known size; nothing is opened yet. The caller closes it.
func NewReader(ctx context.Context, store Store, key string, size int64) *Reader {
	return &Reader{ctx: ctx, store: store, key: key, size: size}
}

// Seek moves the place of the next read.
func (o *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the object's start")
	}
	if offset != o.at {
		if err := o.Close(); err != nil {
			return 0, err
		}
		o.at = offset
	}
	return offset, nil
}

// Read opens the object where the last seek went, and reads on.
func (o *Reader) Read(p []byte) (int, error) {
	if o.at >= o.size {
		return 0, io.EOF
	}
	if o.body == nil {
		body, err := o.store.Open(o.ctx, o.key, o.at, -1)
		if err != nil {
			return 0, err
		}
		o.body = body
	}
	n, err := o.body.Read(p)
	o.at += int64(n)
	return n, err
}

// Close closes what is open.
func (o *Reader) Close() error {
	if o.body == nil {
		return nil
	}
	body := o.body
	o.body = nil
	return body.Close()
}
