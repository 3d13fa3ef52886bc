package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

var (
	// ErrPositionLost says that the log doesn't hold the wanted offset: retention has passed it, or the topic was
	// deleted and made again. The position must never be reset; the partition halts.
	ErrPositionLost = errors.New("position lost")
	// ErrTopicMissing says that the broker answers, but has had no such topic or partition for a while.
	ErrTopicMissing = errors.New("topic missing")
	// ErrTooLarge says that one message is over the limit; it will never be taken.
	ErrTooLarge = errors.New("message too large")
	// ErrClosed says that the writer was closed before the message was durable.
	ErrClosed = errors.New("event log closed")
)

// A new topic is unknown to some brokers for a moment, and a restarted broker knows none; after so long it is missing.
const topicMissingAfter = 15 * time.Second

// Retryable says whether the same request may succeed later: back off, and try again. (That the data may have been
// written all the same, as with a timeout, is for deduplication to sort out.) A cancelled context isn't retryable.
func Retryable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrPositionLost) ||
		errors.Is(err, ErrTopicMissing) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrClosed) {
		return false
	}
	var code kafka.Error
	if errors.As(err, &code) {
		return retryableCodes[code]
	}
	for _, e := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed,
		syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE,
		context.DeadlineExceeded, os.ErrDeadlineExceeded,
		protocol.ErrNoTopic, protocol.ErrNoPartition, protocol.ErrNoLeader,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	var network net.Error // refused, unreachable, unresolved, timed out
	return errors.As(err, &network)
}

var retryableCodes = map[kafka.Error]bool{
	kafka.UnknownTopicOrPartition:      true, // seen just after a topic was made
	kafka.LeaderNotAvailable:           true,
	kafka.NotLeaderForPartition:        true,
	kafka.RequestTimedOut:              true, // the data was appended: expect it twice
	kafka.BrokerNotAvailable:           true,
	kafka.ReplicaNotAvailable:          true,
	kafka.NetworkException:             true,
	kafka.GroupLoadInProgress:          true,
	kafka.GroupCoordinatorNotAvailable: true,
	kafka.NotCoordinatorForGroup:       true,
	kafka.NotEnoughReplicas:            true,
	kafka.NotEnoughReplicasAfterAppend: true,
	kafka.NotController:                true,
	kafka.KafkaStorageError:            true,
	kafka.ListenerNotFound:             true,
	kafka.FencedLeaderEpoch:            true,
	kafka.UnknownLeaderEpoch:           true,
	kafka.OffsetNotAvailable:           true,
	kafka.ThrottlingQuotaExceeded:      true,
	kafka.UnknownTopicID:               true,
}

// perMessage are the codes that one message of a batch can cause: its neighbours may be fine.
var perMessage = map[kafka.Error]bool{
	kafka.InvalidMessage:      true,
	kafka.InvalidMessageSize:  true,
	kafka.MessageSizeTooLarge: true,
	kafka.RecordListTooLarge:  true,
	kafka.InvalidTimestamp:    true,
	kafka.InvalidRecord:       true,
}

// absence tells "not known yet" from "missing". kafka-go says ErrNoTopic or BrokerNotAvailable also when it has never
// reached a broker, so the metadata request, which returns the connection's error, is asked for the truth.
type absence struct {
	mu    sync.Mutex
	since time.Time // zero: the topic was there when last looked at
}

func (a *absence) present() {
	a.mu.Lock()
	a.since = time.Time{}
	a.mu.Unlock()
}

// explain returns err, or what lies behind it if it says that the topic, the partition or the broker isn't known.
func (a *absence) explain(ctx context.Context, c *kafka.Client, topic string, err error) error {
	absent := errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition) ||
		errors.Is(err, kafka.UnknownTopicOrPartition)
	if !absent && !errors.Is(err, kafka.BrokerNotAvailable) {
		return err
	}
	if _, unreachable := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}}); unreachable != nil {
		a.present() // not known to be absent
		return unreachable
	}
	if !absent {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if a.since.IsZero() {
		a.since = now
	}
	if now.Sub(a.since) < topicMissingAfter {
		return err
	}
	return fmt.Errorf("%w (for %s): %w; `millrace migrate` makes the topics", ErrTopicMissing,
		now.Sub(a.since).Round(time.Second), err)
}
