package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Away says whether an error may come from the server's being away: it can't be reached, starts, stops, or has cut the
// connection. A cut connection looks the same whoever was at its other end.
func Away(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return strings.HasPrefix(refused.Code, "57P") || strings.HasPrefix(refused.Code, "08")
	}
	var connecting *pgconn.ConnectError
	var network *net.OpError
	if errors.As(err, &connecting) || errors.As(err, &network) || pgconn.Timeout(err) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	for _, cut := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} {
		if errors.Is(err, cut) {
			return true
		}
	}
	return strings.HasSuffix(err.Error(), "conn closed") // pgx's, which has no type
}
