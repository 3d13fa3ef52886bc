package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
)

func TestRetryable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		{&net.DNSError{Err: "no such host", IsNotFound: true}, true},
		{syscall.ECONNRESET, true},
		{context.DeadlineExceeded, true},
		{os.ErrDeadlineExceeded, true},
		{context.Canceled, false},
		{protocol.NewErrNoTopic("t"), true},
		{protocol.NewErrNoPartition("t", 1), true},
		{protocol.NewErrNoLeader("t", 1), true},
		{kafka.UnknownTopicOrPartition, true},
		{kafka.NotLeaderForPartition, true},
		{kafka.RequestTimedOut, true},
		{kafka.NotEnoughReplicas, true},
		{kafka.GroupLoadInProgress, true},
		{kafka.NotCoordinatorForGroup, true},
		{kafka.OffsetOutOfRange, false},
		{kafka.MessageSizeTooLarge, false},
		{kafka.InvalidTimestamp, false},
		{kafka.IllegalGeneration, false},
		{kafka.UnknownMemberId, false},
		{kafka.TopicAuthorizationFailed, false},
		{ErrPositionLost, false},
		{ErrTopicMissing, false},
		{ErrTooLarge, false},
		{ErrClosed, false},
		{errors.New("anything else"), false},
	} {
		require.Equal(t, c.want, Retryable(c.err), "%v", c.err)
		if c.err != nil {
			require.Equal(t, c.want, Retryable(fmt.Errorf("wrapped: %w", c.err)), "%v", c.err)
		}
	}
	require.False(t, Retryable(fmt.Errorf("%w: %w", ErrTopicMissing, protocol.ErrNoTopic)))
}
