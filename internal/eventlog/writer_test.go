package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 4)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	at := time.Date(2026, 5, 1, 12, 0, 0, 123_000_000, time.UTC)
	sent := []Message{
		{Partition: AnyPartition, Time: at, Key: []byte("session"), Value: []byte("v"), Headers: []Header{{"a", []byte("1")}, {"empty", nil}}},
		{Partition: 3, Time: at.Add(-time.Hour), Key: nil, Value: []byte("no key")},
		{Partition: 3, Time: at, Key: []byte("tomb"), Value: nil},
		{Partition: 3, Time: at, Key: []byte{}, Value: []byte{}},
	}
	requireDurable(t, w.Write(deadline(t), sent...))

	p := PartitionOf([]byte("session"), 4)
	got := readAll(t, r, p, 0)
	require.NotEmpty(t, got)
	require.Equal(t, Record{
		Topic: "events", Partition: p, Offset: 0, Time: at, Key: []byte("session"), Value: []byte("v"),
		Headers: []Header{{"a", []byte("1")}, {"empty", nil}},
	}, got[0])

	got = readAll(t, r, 3, 0)
	got = got[len(got)-3:]
	require.Nil(t, got[0].Key)
	require.Equal(t, at.Add(-time.Hour), got[0].Time)
	require.Nil(t, got[1].Value, "a tombstone")
	require.NotNil(t, got[2].Key)
	require.NotNil(t, got[2].Value)
	require.Empty(t, got[2].Value)
}

func TestZeroTimeIsNow(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 1)
	before := time.Now().Truncate(time.Millisecond)
	requireDurable(t, openWriter(t, cfg, cfg.Topic).Write(deadline(t), numbered(0, 1)...))
	got := readAll(t, openReader(t, cfg), 0, 0)
	require.False(t, got[0].Time.Before(before))
	require.WithinDuration(t, before, got[0].Time, 20*time.Second)
}

func TestOrderHolds(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 2)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	// Eight writers at once; each one's messages stand in its order, in both partitions.
	const writers, rounds, each = 8, 20, 50
	var group sync.WaitGroup
	for n := range writers {
		group.Go(func() {
			for round := range rounds {
				messages := make([]Message, each)
				for i := range messages {
					messages[i] = Message{
						Partition: int32(i % 2), Key: fmt.Append(nil, n), Value: fmt.Append(nil, round*each+i),
					}
				}
				for _, err := range w.Write(deadline(t), messages...) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	for p := range int32(2) {
		last := map[string]int{}
		records := readAll(t, r, p, 0)
		require.Len(t, records, writers*rounds*each/2)
		for _, record := range records {
			var i int
			_, err := fmt.Sscan(string(record.Value), &i)
			require.NoError(t, err)
			if before, ok := last[string(record.Key)]; ok {
				require.Less(t, before, i)
			}
			last[string(record.Key)] = i
		}
	}
}

func TestNeighboursPass(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 1)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	messages := numbered(0, 9)
	messages[2].Partition = 1 // there is none
	messages[4].Value = make([]byte, MaxMessageBytes)
	errs := w.Write(deadline(t), messages...)
	for i, err := range errs {
		switch i {
		case 2:
			require.ErrorContains(t, err, "partitions 0 to 0, not 1")
		case 4:
			require.ErrorIs(t, err, ErrTooLarge)
			require.False(t, Retryable(err))
		default:
			require.NoError(t, err)
		}
	}
	require.Equal(t, []string{"0", "1", "3", "5", "6", "7", "8"}, values(readAll(t, r, 0, 0)))
}

// The broker refuses a whole batch for one record: by its size, and by its time.
func TestBrokerRefusesOneOfMany(t *testing.T) {
	t.Parallel()
	for _, code := range []kafka.Error{kafka.MessageSizeTooLarge, kafka.InvalidTimestamp} {
		for _, named := range []bool{false, true} {
			t.Run(fmt.Sprint(code.Title(), named), func(t *testing.T) {
				t.Parallel()
				broker, cfg := startBroker(t, 1)
				w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
				// In place of the broker's own check: what holds the word "poison" is refused.
				names := []int32{7, 12} // 13 has moved up by then
				broker.ControlKey(0, func(request kmsg.Request) (kmsg.Response, error, bool) {
					broker.KeepControl()
					produce := request.(*kmsg.ProduceRequest)
					batch := produce.Topics[0].Partitions[0].Records
					if !bytes.Contains(batch, []byte("poison")) {
						return nil, nil, false
					}
					response := produce.ResponseKind().(*kmsg.ProduceResponse)
					topic := kmsg.NewProduceResponseTopic()
					topic.Topic = produce.Topics[0].Topic
					partition := kmsg.NewProduceResponseTopicPartition()
					partition.ErrorCode = int16(code)
					if named {
						record := kmsg.NewProduceResponseTopicPartitionErrorRecord()
						record.RelativeOffset = names[0]
						names = names[1:]
						partition.ErrorRecords = append(partition.ErrorRecords, record)
					}
					topic.Partitions = append(topic.Partitions, partition)
					response.Topics = append(response.Topics, topic)
					return response, nil, true
				})
				messages := numbered(0, 20)
				var want []string
				for i := range messages {
					messages[i].Value = fmt.Appendf(nil, "value-%d", i)
					if i == 7 || i == 13 {
						messages[i].Value = []byte("poison")
					} else {
						want = append(want, string(messages[i].Value))
					}
					messages[i].Key = nil
				}
				messages[13].Value = []byte("other poison")
				errs := w.Write(deadline(t), messages...)
				for i, err := range errs {
					if i == 7 || i == 13 {
						require.ErrorIs(t, err, code)
						require.False(t, Retryable(err))
					} else {
						require.NoError(t, err, "message %d", i)
					}
				}
				require.Equal(t, want, values(readAll(t, r, 0, 0)))
			})
		}
	}
}

func TestRetriesUntilTheBrokerTakesIt(t *testing.T) {
	t.Parallel()
	for _, code := range []kafka.Error{kafka.NotLeaderForPartition, kafka.NotEnoughReplicas, kafka.UnknownTopicOrPartition} {
		t.Run(code.Title(), func(t *testing.T) {
			t.Parallel()
			broker, cfg := startBroker(t, 1)
			w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
			refuse := 3
			broker.ControlKey(0, func(request kmsg.Request) (kmsg.Response, error, bool) {
				broker.KeepControl()
				if refuse == 0 {
					return nil, nil, false
				}
				refuse--
				return refusal(request, code), nil, true
			})
			requireDurable(t, w.Write(deadline(t), numbered(0, 5)...))
			require.Equal(t, []string{"0", "1", "2", "3", "4"}, values(readAll(t, r, 0, 0)))
		})
	}
}

func TestLostConnectionIsRetried(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 1)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	broker.ControlKey(0, func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("the connection dies"), true
	})
	requireDurable(t, w.Write(deadline(t), numbered(0, 2)...))
	require.Equal(t, []string{"0", "1"}, values(readAll(t, r, 0, 0)))
}

func TestPermanentErrorOfAll(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 1)
	w := openWriter(t, cfg, cfg.Topic)
	asked := 0
	broker.ControlKey(0, func(request kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		asked++
		return refusal(request, kafka.TopicAuthorizationFailed), nil, true
	})
	for _, err := range w.Write(deadline(t), numbered(0, 50)...) {
		require.ErrorIs(t, err, kafka.TopicAuthorizationFailed)
	}
	require.Equal(t, 1, asked, "not halved: no single message is to blame")
}

func TestWriteEndsWithItsContext(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 1)
	w := openWriter(t, cfg, cfg.Topic)
	_, err := w.Partitions(deadline(t))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	attempts := 0
	broker.ControlKey(0, func(request kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		if attempts++; attempts == 2 {
			cancel()
		}
		return refusal(request, kafka.NotEnoughReplicas), nil, true
	})
	for _, err := range w.Write(ctx, numbered(0, 3)...) {
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, kafka.NotEnoughReplicas, "why it waited")
		require.False(t, Retryable(err))
	}
}

func TestCloseEndsWrite(t *testing.T) {
	t.Parallel()
	broker, cfg := startBroker(t, 1)
	w, err := NewWriter(cfg, cfg.Topic)
	require.NoError(t, err)
	asked := make(chan struct{}, 100)
	broker.ControlKey(0, func(request kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		asked <- struct{}{}
		return refusal(request, kafka.NotEnoughReplicas), nil, true
	})
	go func() {
		<-asked
		_ = w.Close()
	}()
	for _, err := range w.Write(deadline(t), numbered(0, 3)...) {
		require.ErrorIs(t, err, ErrClosed)
	}
	for _, err := range w.Write(deadline(t), numbered(0, 1)...) {
		require.ErrorIs(t, err, ErrClosed)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	w := openWriter(t, Config{Brokers: []string{"127.0.0.1:1"}, Topic: "events"}, "events")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	errs := w.Write(ctx, numbered(0, 1)...)
	require.ErrorContains(t, errs[0], "connection refused")
	require.True(t, errors.Is(errs[0], context.DeadlineExceeded) || Retryable(errs[0]))
}

func TestRestartOnTheSameFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, cfg := startBroker(t, 2, kfake.DataDir(dir))
	w := openWriter(t, cfg, cfg.Topic)
	requireDurable(t, w.Write(deadline(t), numbered(1, 100)...))
	require.NoError(t, openReader(t, cfg).CommitLowWatermark(deadline(t), 1, 40))
	first.Close()

	again, second := startBroker(t, 2, kfake.DataDir(dir))
	r := openReader(t, second)
	require.Len(t, readAll(t, r, 1, 0), 100)
	requireDurable(t, openWriter(t, second, cfg.Topic).Write(deadline(t), numbered(1, 1)...))
	_, next, err := r.Bounds(deadline(t), 1)
	require.NoError(t, err)
	require.EqualValues(t, 101, next)
	require.EqualValues(t, 40, again.GroupInfo(Group).Commits["events"][1].Offset)
}

func refusal(request kmsg.Request, code kafka.Error) kmsg.Response {
	produce := request.(*kmsg.ProduceRequest)
	response := produce.ResponseKind().(*kmsg.ProduceResponse)
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic = produce.Topics[0].Topic
	partition := kmsg.NewProduceResponseTopicPartition()
	partition.Partition = produce.Topics[0].Partitions[0].Partition
	partition.ErrorCode = int16(code)
	topic.Partitions = append(topic.Partitions, partition)
	response.Topics = append(response.Topics, topic)
	return response
}

func values(records []Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Value)
	}
	return out
}
