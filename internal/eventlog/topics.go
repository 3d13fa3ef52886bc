package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// topic is one topic as it should be.
type topic struct {
	name       string
	partitions int
	settings   []setting
}

type setting struct{ name, value, why string }

// leastRetention is what a topic must keep at least: three times the longest turn of the default configuration, so
// that the payloads of open turns can be read again after an outage.
const leastRetention = 6 * time.Hour

// fits says whether a topic's own value will do. How long the log is kept beyond the least is the operator's choice.
func (s setting) fits(value string) bool {
	if s.name != "retention.ms" {
		return value == s.value
	}
	ms, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (ms < 0 || ms >= leastRetention.Milliseconds())
}

func (c Config) topics() []topic {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	settings := func(maxBytes int) []setting {
		s := []setting{
			{"message.timestamp.type", "CreateTime", "the reader can't see the broker's append time"},
			{"message.timestamp.after.max.ms", ms(maxTimeAhead), "else one writer's wrong clock moves the log time ahead for all"},
			{"max.message.bytes", strconv.Itoa(maxBytes), "else large events are refused, or larger ones than the readers expect pass"},
			{"retention.ms", ms(c.Retention), "it must outlast the longest turn and end before the erasure deadline"},
			{"cleanup.policy", "delete", "compaction would drop a session's events"},
		}
		if c.ReplicationFactor >= 3 {
			s = append(s, setting{"min.insync.replicas", "2", "else one broker's death can lose acknowledged events"})
		}
		return s
	}
	return []topic{
		{c.Topic, c.Partitions, settings(16 << 20)},
		{c.DeadLetterTopic(), 1, settings(17 << 20)},
		{c.CheckpointTopic(), 1, settings(1 << 20)},
	}
}

// Ensure makes the topics of events, dead letters and checkpoints with the settings that the pipeline needs. Topics
// that exist are left alone, whatever their settings (see Check); but a number of partitions other than the wanted
// one is an error, since sessions are already spread over them.
func Ensure(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg = cfg.withDefaults()
	client := cfg.client(ackTimeout)
	defer closeClient(client)
	var gone absence
	var last error
	for wait := newBackoff(); ; {
		err := ensure(ctx, client, cfg)
		if err == nil {
			return nil
		}
		if err = gone.explain(ctx, client, cfg.Topic, err); ctx.Err() == nil {
			last = err // which says more than that the time is over
		}
		if !Retryable(err) || !wait.sleep(ctx, ctx) {
			return fmt.Errorf("making the topics at %v: %w", cfg.Brokers, cmp.Or(last, err))
		}
	}
}

func ensure(ctx context.Context, client *kafka.Client, cfg Config) error {
	for _, t := range cfg.topics() {
		err := create(ctx, client, cfg, t)
		if err != nil && !errors.Is(err, kafka.TopicAlreadyExists) {
			return fmt.Errorf("topic %s: %w", t.name, err)
		}
		n, err := countPartitions(ctx, client, t.name)
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.name, err)
		}
		if n != t.partitions {
			return fmt.Errorf("topic %s has %d partitions, wanted are %d: partitions are chosen once, "+
				"so configure %d, or take a new topic and drain the old one", t.name, n, t.partitions, n)
		}
	}
	return nil
}

func create(ctx context.Context, client *kafka.Client, cfg Config, t topic) error {
	request := kafka.TopicConfig{Topic: t.name, NumPartitions: t.partitions, ReplicationFactor: cfg.ReplicationFactor}
	for _, s := range t.settings {
		request.ConfigEntries = append(request.ConfigEntries, kafka.ConfigEntry{ConfigName: s.name, ConfigValue: s.value})
	}
	response, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{request}})
	if err != nil {
		return err
	}
	return response.Errors[t.name]
}

// Check reads the topics' configuration back and says in sentences what is wrong with it; empty: nothing.
func Check(ctx context.Context, cfg Config) ([]string, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	client := cfg.client(readTimeout)
	defer closeClient(client)
	var wrong []string
	request := &kafka.DescribeConfigsRequest{}
	present := map[string]topic{}
	for _, t := range cfg.topics() {
		n, err := countPartitions(ctx, client, t.name)
		switch {
		case errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic):
			wrong = append(wrong, fmt.Sprintf("topic %s does not exist; `millrace migrate` makes it", t.name))
			continue
		case err != nil:
			return nil, fmt.Errorf("reading topic %s at %v: %w", t.name, cfg.Brokers, err)
		case n != t.partitions:
			wrong = append(wrong, fmt.Sprintf("topic %s has %d partitions, configured are %d", t.name, n, t.partitions))
		}
		present[t.name] = t
		request.Resources = append(request.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: t.name,
		})
	}
	if len(present) == 0 {
		return wrong, nil
	}
	response, err := client.DescribeConfigs(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("reading the topics' configuration at %v: %w", cfg.Brokers, err)
	}
	for _, r := range response.Resources {
		if r.Error != nil {
			return nil, fmt.Errorf("reading the configuration of topic %s: %w", r.ResourceName, r.Error)
		}
		has := map[string]string{}
		for _, e := range r.ConfigEntries {
			has[e.ConfigName] = e.ConfigValue
		}
		for _, s := range present[r.ResourceName].settings {
			if v, ok := has[s.name]; !ok {
				wrong = append(wrong, fmt.Sprintf("topic %s: the broker has no setting %s (wanted %s): %s", r.ResourceName, s.name, s.value, s.why))
			} else if !s.fits(v) {
				wrong = append(wrong, fmt.Sprintf("topic %s: %s is %s, wanted %s: %s", r.ResourceName, s.name, v, s.value, s.why))
			}
		}
	}
	return wrong, nil
}
