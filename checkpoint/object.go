package checkpoint

import (
	"context"
	"errors"
	"io"

	"millrace/internal/objstore"
)

// objectReader reads an object from wherever it was sought to: what http.ServeContent needs for ranges.
type objectReader struct {
	ctx   context.Context
	store objstore.Store
	key   string
	size  int64
	at    int64
	body  io.ReadCloser // nil: to be opened at at
}

// Read implements io.Reader.
func (o *objectReader) Read(p []byte) (int, error) {
	if o.body == nil {
		if o.at >= o.size {
			return 0, io.EOF
		}
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

// Seek implements io.Seeker.
func (o *objectReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += o.at
	case io.SeekEnd:
		offset += o.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the object's begin")
	}
	if offset != o.at {
		o.close()
		o.at = offset
	}
	return offset, nil
}

func (o *objectReader) close() {
	if o.body != nil {
		_ = o.body.Close() // read only
		o.body = nil
	}
}
