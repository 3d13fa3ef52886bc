package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/internal/embedded"
	"millrace/internal/eventlog"
	"millrace/internal/postgres/postgrestest"
)

// operator runs commands over a broker and a database of the test's own.
type operator struct {
	t     *testing.T
	flags []string
	cfg   eventlog.Config
}

func (o *operator) run(args ...string) (stdout, stderr string, code int) {
	o.t.Helper()
	var out, complaints bytes.Buffer
	code = run(o.t.Context(), append(args, o.flags...), &out, &complaints)
	return out.String(), complaints.String(), code
}

func TestDoctorAndDeadLetters(t *testing.T) {
	t.Parallel()
	broker, err := embedded.StartKafka(t.TempDir(), 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, broker.Close()) })
	pool := postgrestest.New(t)
	kafka := "--kafka=" + strings.Join(broker.Brokers(), ",")
	places := []string{kafka, "--postgres=" + pool.Config().ConnString(), "--objects=" + filepath.Join(t.TempDir(), "objects")}
	doctor := &operator{t: t, flags: places}

	out, complaint, code := doctor.run("doctor")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "WRONG  partitions     topic millrace.sessions is not known to this database")
	require.Contains(t, out, "WRONG  kafka          topic millrace.sessions does not exist; `millrace migrate` makes it")
	require.Contains(t, complaint, "checks found something wrong")

	migrate := &operator{t: t, flags: append(places, "--control-key="+strings.Repeat("5e", 16))}
	out, complaint, code = migrate.run("migrate", "--partitions=3")
	require.Zero(t, code, complaint)
	require.Contains(t, out, "topics millrace.sessions (3 partitions), millrace.sessions.dead and millrace.checkpoints")
	_, complaint, code = migrate.run("migrate", "--max-turn=3h")
	require.Equal(t, exitUsage, code)
	require.Contains(t, complaint, "--max-turn 3h0m0s is longer than --dedupe-window 2h0m0s")
	_, complaint, code = migrate.run("migrate", "--spec="+quickSpec(t))
	require.Zero(t, code, complaint)
	require.Regexp(t, "--spec .* is not adopted: the reward spec in force stays, [a-z]", complaint)
	_, complaint, code = migrate.run("migrate", "--partitions=4")
	require.Equal(t, exitFailed, code)
	require.Contains(t, complaint, "topic millrace.sessions has 3 partitions, wanted are 4")
	_, complaint, code = migrate.run("migrate")
	require.Zero(t, code, complaint)

	out, _, code = doctor.run("doctor", "-o", "json")
	require.Zero(t, code, out)
	var report struct {
		OK     bool
		Checks []examination
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	require.True(t, report.OK)
	require.Len(t, report.Checks, 7)

	_, err = pool.Exec(t.Context(), `update partition set halted = 'the log ends' where partition = 2`)
	require.NoError(t, err)
	out, _, code = doctor.run("doctor")
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, "WRONG  partitions     2 is halted: the log ends; mend the cause, then: millrace partition resume 2")

	letters(t, &operator{t: t, flags: []string{kafka}, cfg: eventlog.Config{Brokers: broker.Brokers(), Topic: defaultTopic}})
}

func letters(t *testing.T, o *operator) {
	t.Helper()
	out, complaint, code := o.run("deadletters", "list")
	require.Zero(t, code, complaint)
	require.Contains(t, out, "no dead letters")

	writer, err := eventlog.NewWriter(o.cfg, o.cfg.DeadLetterTopic())
	require.NoError(t, err)
	bad := eventlog.Record{Topic: defaultTopic, Partition: 1, Offset: 17, Time: time.Now(), Key: []byte("s1"), Value: []byte("\x00broken")}
	control := bad
	control.Key, control.Offset = []byte("control:x"), 18
	for _, err := range writer.Write(t.Context(), eventlog.DeadLetter{Record: bad, Reason: "undecodable"}.Message(), eventlog.DeadLetter{Record: control, Reason: "bad_signature"}.Message()) {
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())

	out, complaint, code = o.run("deadletters", "list")
	require.Zero(t, code, complaint)
	require.Regexp(t, `0 +undecodable +millrace.sessions/1@17 .* 7 +"s1"`, out)
	out, _, code = o.run("deadletters", "show", "0")
	require.Zero(t, code)
	require.Contains(t, out, "hex:0062726f6b656e")
	_, complaint, code = o.run("deadletters", "show", "9")
	require.Equal(t, exitFailed, code)
	require.Contains(t, complaint, "no dead letter there")
	_, complaint, code = o.run("deadletters", "replay", "0", "1")
	require.Equal(t, exitFailed, code)
	require.Contains(t, complaint, "its signature holds for its old place only")

	out, complaint, code = o.run("deadletters", "replay", "0")
	require.Zero(t, code, complaint)
	require.Contains(t, out, "1 records written into millrace.sessions again")
	reader, err := eventlog.NewReader(o.cfg)
	require.NoError(t, err)
	defer reader.Close()
	at := eventlog.PartitionOf(bad.Key, 3)
	_, next, err := reader.Bounds(t.Context(), at)
	require.NoError(t, err)
	records, err := reader.Fetch(t.Context(), at, next-1)
	require.NoError(t, err)
	require.Equal(t, bad.Value, records[0].Value)
}
