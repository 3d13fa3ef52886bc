package eventlog

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/segmentio/kafka-go"
)

// Config says where the log is.
type Config struct {
	Brokers           []string      // host:port of at least one broker
	Topic             string        // of events and control records
	Partitions        int           // of the topic, when Ensure makes it; chosen once and amply. Default 8
	ReplicationFactor int           // when Ensure makes the topics. Default 1
	Retention         time.Duration // when Ensure makes the topics. Default 7 days; shorter than the erasure deadline
	ClientID          string        // names this process to the brokers
}

const (
	defaultPartitions = 8
	defaultRetention  = 7 * 24 * time.Hour

	// A record's time may lie at most so far ahead of the broker's clock; the broker refuses what lies further.
	maxTimeAhead = 10 * time.Second

	metadataTTL = time.Second     // how long a moved leader may go unnoticed
	dialTimeout = 2 * time.Second // without it a dead host holds a request for minutes
	readTimeout = 5 * time.Second // without it a frozen leader hangs a fetch forever
	ackTimeout  = 10 * time.Second
)

// Group is the consumer group under which the low watermarks are told to Kafka, for lag tools to see.
const Group = "millrace"

// CheckpointTopic carries what is published about checkpoints.
const checkpointTopic = "millrace.checkpoints"

// DeadLetterTopic is where records go that can't be taken, byte for byte.
func (c Config) DeadLetterTopic() string { return c.Topic + ".dead" }

// CheckpointTopic is where the publication of checkpoints is announced.
func (c Config) CheckpointTopic() string { return checkpointTopic }

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,240}$`)

// Validate checks the configuration.
func (c Config) Validate() error {
	switch {
	case len(c.Brokers) == 0:
		return errors.New("kafka: no broker given; give at least one as host:port")
	case !topicName.MatchString(c.Topic):
		return fmt.Errorf("kafka: %q is no topic name; use 1 to 240 of a–z, A–Z, 0–9, '.', '_', '-'", c.Topic)
	case c.Partitions < 0, c.ReplicationFactor < 0, c.Retention < 0:
		return fmt.Errorf("kafka: partitions %d, replication factor %d and retention %s must not be negative",
			c.Partitions, c.ReplicationFactor, c.Retention)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Partitions == 0 {
		c.Partitions = defaultPartitions
	}
	if c.ReplicationFactor == 0 {
		c.ReplicationFactor = 1
	}
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	if c.ClientID == "" {
		c.ClientID = "millrace"
	}
	return c
}

// client makes a client with a transport of its own: kafka-go's default transport is shared by the whole process.
// Naming the topics keeps the metadata small on a broker with many.
func (c Config) client(timeout time.Duration, topics ...string) *kafka.Client {
	return &kafka.Client{
		Addr:    kafka.TCP(c.Brokers...),
		Timeout: timeout,
		Transport: &kafka.Transport{
			ClientID:       c.ClientID,
			DialTimeout:    dialTimeout,
			IdleTimeout:    30 * time.Second,
			MetadataTTL:    metadataTTL,
			MetadataTopics: topics,
		},
	}
}

func closeClient(c *kafka.Client) { c.Transport.(*kafka.Transport).CloseIdleConnections() }
