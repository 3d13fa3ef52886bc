package feed

import (
	"context"
	"errors"
	"io"

	"millrace/internal/objstore"
)

// object reads an object of the store from any place: a seek costs nothing until the next read.
type object struct {
	ctx   context.Context // of the request that reads it
	store objstore.Store
	key   string
	size  int64
	at    int64
	body  io.ReadCloser // open at at, or nil
}

// Seek moves the place of the next read.
func (o *object) Seek(offset int64, whence int) (int64, error) {
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
func (o *object) Read(p []byte) (int, error) {
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
func (o *object) Close() error {
	if o.body == nil {
		return nil
	}
	body := o.body
	o.body = nil
	return body.Close()
}
