package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"

	"millrace/internal/eventlog"
	"millrace/schemas/event"
)

// DeadLettersCommand looks at the records that could not be taken, and writes them into the log again.
type DeadLettersCommand struct {
	List   DeadLettersList   `cmd:"" help:"The newest dead letters: why, from where, when."`
	Show   DeadLettersShow   `cmd:"" help:"One of them: headers and content."`
	Replay DeadLettersReplay `cmd:"" help:"Write records into the log again, after the cause is mended."`
}

// DeadLog is where dead letters are.
type DeadLog struct {
	Brokers `embed:""`
	Topic   string `group:"places" env:"MILLRACE_TOPIC" default:"${default_topic}" help:"The topic of session events; the dead letters are in TOPIC.dead."`
	Data    string `group:"places" env:"MILLRACE_DATA" default:"./millrace-data" help:"Data folder of a local millrace up, which is meant if no place is said."`
}

func (l *DeadLog) config() eventlog.Config {
	return eventlog.Config{Brokers: l.Kafka, Topic: l.Topic, ClientID: "millrace-deadletters"}
}

// letter is a dead letter and where it lies.
type letter struct {
	eventlog.DeadLetter
	At int64
}

// errNoLetter says that a place of the dead-letter topic holds none.
var errNoLetter = errors.New("no dead letter")

// each visits the letters from an offset on, as far as the topic reaches now; a negative one counts from the end.
func (l *DeadLog) each(ctx context.Context, from int64, visit func(letter) error) error {
	if len(l.Kafka) == 0 {
		local, err := localPlaces(l.Data, "--kafka HOST:PORT")
		if err != nil {
			return err
		}
		l.Kafka = local.Kafka
	}
	cfg := l.config()
	cfg.Topic = cfg.DeadLetterTopic()
	reader, err := eventlog.NewReader(cfg)
	if err != nil {
		return err
	}
	defer reader.Close()
	first, next, err := reader.Bounds(ctx, 0)
	if err != nil {
		return err
	}
	if from < 0 {
		from += next
	}
	for from = max(from, first); from < next; {
		records, err := reader.Fetch(ctx, 0, from)
		if err != nil {
			return err
		}
		for _, r := range records {
			from = r.Offset + 1
			d, ok := eventlog.ReadDeadLetter(r)
			if !ok {
				d = eventlog.DeadLetter{Record: r, Reason: "not written by millrace"}
			}
			if err := visit(letter{d, r.Offset}); err != nil {
				return err
			}
		}
	}
	return nil
}

var errEnough = errors.New("enough")

// at finds one letter by its place.
func (l *DeadLog) at(ctx context.Context, offset int64) (found letter, err error) {
	if offset < 0 {
		return found, usagef("offset %d: give one that `millrace deadletters list` shows", offset)
	}
	err = l.each(ctx, offset, func(x letter) error {
		found = x
		return errEnough
	})
	if !errors.Is(err, errEnough) && err != nil {
		return found, err
	}
	if err == nil || found.At != offset {
		return found, fmt.Errorf("offset %d of %s: %w there", offset, l.config().DeadLetterTopic(), errNoLetter)
	}
	return found, nil
}

// DeadLettersList is deadletters list.
type DeadLettersList struct {
	DeadLog `embed:""`
	Last    int64 `default:"100" help:"How many of the newest."`
}

// Run implements the command.
func (c *DeadLettersList) Run(ctx context.Context, out *Output) error {
	if c.Last < 1 {
		return usagef("--last %d: give at least 1", c.Last)
	}
	t := tabwriter.NewWriter(out.Out, 0, 4, 2, ' ', 0)
	if !out.JSON {
		fmt.Fprintln(t, "offset\treason\tfrom\ttime\tbytes\tkey")
	}
	n := 0
	err := c.each(ctx, -c.Last, func(d letter) error {
		n++
		if out.JSON {
			return out.Object(d.summary())
		}
		_, err := fmt.Fprintf(t, "%d\t%s\t%s/%d@%d\t%s\t%d\t%.60q\n", d.At, d.Reason, d.Topic, d.Partition, d.Offset, d.Time.Format(time.DateTime), len(d.Value), d.Key)
		return err
	})
	if err != nil {
		return err
	}
	if n == 0 {
		out.Print("no dead letters")
		return nil
	}
	return t.Flush()
}

func (d *letter) summary() map[string]any {
	return map[string]any{
		"offset": d.At, "reason": d.Reason, "topic": d.Topic, "partition": d.Partition, "record_offset": d.Offset, "time": d.Time,
		"bytes": len(d.Value), "key": string(d.Key),
	}
}

// DeadLettersShow is deadletters show.
type DeadLettersShow struct {
	DeadLog `embed:""`
	Offset  int64 `arg:"" help:"As deadletters list shows it."`
}

// Run implements the command.
func (c *DeadLettersShow) Run(ctx context.Context, out *Output) error {
	d, err := c.at(ctx, c.Offset)
	if err != nil {
		return err
	}
	content, readable := readContent(d.Value)
	if out.JSON {
		s := d.summary()
		headers := map[string]string{}
		for _, h := range d.Headers {
			headers[h.Key] = printable(h.Value)
		}
		s["headers"] = headers
		if readable {
			s["event"] = json.RawMessage(content)
		} else {
			s["value"] = content
		}
		return out.Object(s)
	}
	out.Print("reason   %s\nfrom     %s partition %d offset %d\ntime     %s\nkey      %q", d.Reason, d.Topic, d.Partition, d.Offset, d.Time.Format(time.RFC3339Nano), d.Key)
	for _, h := range d.Headers {
		out.Print("header   %s: %s", h.Key, printable(h.Value))
	}
	out.Print("content  %d bytes\n%s", len(d.Value), content)
	return nil
}

// readContent is the event as JSON if it is one, else what can be shown of the bytes.
func readContent(value []byte) (string, bool) {
	e := &event.SessionEvent{}
	if len(value) > 0 && e.UnmarshalVT(value) == nil {
		if body, err := protojson.Marshal(e); err == nil {
			return string(body), true
		}
	}
	return printable(value), false
}

func printable(b []byte) string {
	if utf8.Valid(b) && !strings.ContainsFunc(string(b), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) {
		return string(b)
	}
	return "hex:" + hex.EncodeToString(b)
}

// DeadLettersReplay is deadletters replay.
type DeadLettersReplay struct {
	DeadLog `embed:""`
	Offsets []int64 `arg:"" name:"offset" help:"As deadletters list shows them."`
}

// Help is what 'millrace deadletters replay --help' adds.
func (c *DeadLettersReplay) Help() string {
	return `The record is written as it was, with today's time, into the partition of its key. Repeating it is safe: what was
taken meanwhile counts as a duplicate. What is still wrong with it makes it a dead letter again.`
}

// Run implements the command.
func (c *DeadLettersReplay) Run(ctx context.Context, out *Output) error {
	messages := make([]eventlog.Message, 0, len(c.Offsets))
	for _, offset := range c.Offsets {
		d, err := c.at(ctx, offset)
		if err != nil {
			return err
		}
		m, ok := d.Again()
		if !ok {
			return fmt.Errorf("offset %d is a control record: its signature holds for its old place only", offset)
		}
		messages = append(messages, m)
	}
	writer, err := eventlog.NewWriter(c.config(), c.Topic)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = errors.Join(append(writer.Write(bounded, messages...), writer.Close())...)
	if err != nil {
		return err
	}
	out.Print("%d records written into %s again", len(messages), c.Topic)
	return nil
}
