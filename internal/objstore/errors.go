package objstore

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// What callers tell apart, by errors.Is.
var (
	ErrExists      = errors.New("another object is already there under this key")
	ErrNotFound    = errors.New("no such object")
	ErrRange       = errors.New("the range is not inside the object")
	ErrKey         = errors.New("not a valid key")
	ErrUnavailable = errors.New("the object store is not available")
	ErrFull        = errors.New("no space left in the object store")
)

// Retryable says whether the same call may succeed later without anybody changing the configuration: a full
// or vanished folder, a network that is down, a server that is overloaded. Wrong keys, conflicts,
// missing objects, refused credentials and a cancelled context aren't.
func Retryable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	for _, final := range []error{ErrExists, ErrNotFound, ErrRange, ErrKey} {
		if errors.Is(err, final) {
			return false
		}
	}
	if errors.Is(err, ErrUnavailable) || errors.Is(err, ErrFull) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	for _, e := range []error{syscall.EIO, syscall.EAGAIN, syscall.EINTR, syscall.EMFILE, syscall.ENFILE, syscall.ESTALE, syscall.EBUSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	switch code := answerOf(err).StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooManyRequests, code >= 500:
		return true
	case code > 0:
		return false
	}
	var network net.Error
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request)
}
