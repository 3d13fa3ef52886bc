package arrowfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"millrace/schemas/sample"
)

// Compression of the columns in a shard.
type Compression string

// The compressions. Zstd packs best (a cut's parts), but takes one core for 129 MB/s: a partition's shards are lz4 or plain.
const (
	None Compression = "none"
	LZ4  Compression = "lz4"
	Zstd Compression = "zstd"
)

// batchBytes ends a batch of rows inside a shard: small enough to be read in one go, and far below what
// offsets of 32 bits reach.
const batchBytes = 32 << 20

// ShardMeta is what the file says about itself, in the schema's metadata as millrace.*.
type ShardMeta struct {
	ShardID       string
	PolicyVersion string // of all rows; "" only where a file mixes versions (a cut's part)
	RewardSpec    string // name@version; "" where it differs by row
	Topic         string
	Partition     int32
	FirstOffset   int64 // of the commit
	LastOffset    int64
}

// SHA256 is the digest by which shards and ledger files are known, in lower-case hex.
func SHA256(b []byte) string {
	digest := sha256.Sum256(b)
	return hex.EncodeToString(digest[:])
}

// WriteShard encodes rows as an Arrow IPC file that is also a stream from byte 8, and reads it back before it
// returns. The rows' byte slices are copied once. It refuses rows whose lists differ in length, whose
// rewards are not finite, or that aren't of the shard's policy version.
func WriteShard(meta ShardMeta, rows []sample.Row, compression Compression) (file []byte, err error) {
	defer recovered("write shard "+meta.ShardID, &err)
	for i := range rows {
		if err := checkRow(meta, &rows[i]); err != nil {
			return nil, fmt.Errorf("write shard %s: row %d (%s): %w", meta.ShardID, i, rows[i].SampleID, err)
		}
	}
	metadata := meta.encode(len(rows))
	schema := schemaOf(shardColumns, &metadata)
	options := []ipc.Option{ipc.WithSchema(schema), ipc.WithAllocator(allocator)}
	switch compression {
	case None:
	case LZ4:
		options = append(options, ipc.WithLZ4())
	case Zstd:
		options = append(options, ipc.WithZstd())
	default:
		return nil, fmt.Errorf("write shard %s: unknown compression %q; there are none, lz4 and zstd", meta.ShardID, compression)
	}

	var sink counted
	writer, err := ipc.NewFileWriter(&sink, options...)
	if err != nil {
		return nil, fmt.Errorf("write shard %s: %w", meta.ShardID, err)
	}
	for from := 0; ; { // once also without rows: an empty batch brings the schema into the stream
		to := batchEnd(rows, from)
		if err := writer.Write(buildRecord(schema, shardColumns, rows[from:to])); err != nil {
			return nil, fmt.Errorf("write shard %s: %w", meta.ShardID, err)
		}
		if from = to; from == len(rows) {
			break
		}
	}
	_, _ = sink.Write(endOfStream)
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("write shard %s: %w", meta.ShardID, err)
	}
	if err := verify(sink.Bytes(), schema, rows); err != nil {
		return nil, fmt.Errorf("write shard %s: read back: %w", meta.ShardID, err)
	}
	return sink.Bytes(), nil
}

// batchEnd is the first row that no longer fits into the batch that begins at from.
func batchEnd(rows []sample.Row, from int) int {
	size := 0
	for i := from; i < len(rows); i++ {
		size += 512 + 9*rows[i].Length() + 4*len(rows[i].TokenAdvantages)
		if size > batchBytes && i > from {
			return i
		}
	}
	return len(rows)
}

// verify reads a file and compares every batch, buffer by buffer, with what was to be written. A batch is built once more for that:
// it costs less than to keep them all.
func verify(file []byte, schema *arrow.Schema, rows []sample.Row) error {
	reader, err := openShard(file)
	if err != nil {
		return err
	}
	for from := 0; ; {
		to := batchEnd(rows, from)
		got, err := reader.Read()
		if err != nil {
			return fmt.Errorf("rows %d to %d: %w", from, to, err)
		}
		want := buildRecord(schema, shardColumns, rows[from:to])
		for c, a := range want.Columns() {
			if !sameData(a.Data(), got.Column(c).Data()) {
				return fmt.Errorf("rows %d to %d, column %s differ from what was written", from, to, want.ColumnName(c))
			}
		}
		if from = to; from == len(rows) {
			break
		}
	}
	if _, err := reader.Read(); !errors.Is(err, io.EOF) {
		return errors.New("more batches than were written")
	}
	return nil
}

func sameData(a, b arrow.ArrayData) bool {
	if a.Len() != b.Len() || a.NullN() != b.NullN() || len(a.Children()) != len(b.Children()) || len(a.Buffers()) != len(b.Buffers()) {
		return false
	}
	for i, x := range a.Buffers() {
		y := b.Buffers()[i]
		if i == 0 && a.NullN() == 0 || a.Len() == 0 {
			continue // without nulls a bitmap may be left out, and without rows everything
		}
		var u, v []byte
		if x != nil {
			u = x.Bytes()
		}
		if y != nil {
			v = y.Bytes()
		}
		if n := min(len(u), len(v)); !bytes.Equal(u[:n], v[:n]) || !allZero(u[n:]) || !allZero(v[n:]) {
			return false // but for padding
		}
	}
	for i, x := range a.Children() {
		if !sameData(x, b.Children()[i]) {
			return false
		}
	}
	return true
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// ReadShard decodes a shard. Rows may share memory with each other; treat their slices as read-only. It
// never panics, but it can't see a flipped bit in a value: compare size and SHA-256 first.
func ReadShard(file []byte) (meta ShardMeta, rows []sample.Row, err error) {
	defer recovered("read shard", &err)
	reader, err := openShard(file)
	if err != nil {
		return ShardMeta{}, nil, fmt.Errorf("read shard: %w", err)
	}
	meta, count, err := decodeMeta(reader.Schema().Metadata())
	if err != nil {
		return ShardMeta{}, nil, fmt.Errorf("read shard: %w", err)
	}
	place, err := places(shardColumns, reader.Schema())
	if err != nil {
		return ShardMeta{}, nil, fmt.Errorf("read shard %s: %w", meta.ShardID, err)
	}
	for {
		batch, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return ShardMeta{}, nil, fmt.Errorf("read shard %s: %w", meta.ShardID, err)
		}
		n := len(rows)
		rows = append(rows, make([]sample.Row, batch.NumRows())...)
		for i, c := range shardColumns {
			a := batch.Column(place[i])
			if err := c.checked(a, len(rows)-n); err != nil {
				return ShardMeta{}, nil, fmt.Errorf("read shard %s: %w", meta.ShardID, err)
			}
			c.read(a, rows[n:])
		}
	}
	if len(rows) != count {
		return ShardMeta{}, nil, fmt.Errorf("read shard %s: %d rows, and its metadata says %d", meta.ShardID, len(rows), count)
	}
	for i := range rows {
		if err := checkRow(meta, &rows[i]); err != nil {
			return ShardMeta{}, nil, fmt.Errorf("read shard %s: row %d (%q): %w", meta.ShardID, i, rows[i].SampleID, err)
		}
	}
	return meta, rows, nil
}

func openShard(file []byte) (*ipc.Reader, error) {
	m, err := newMessages(file)
	if err != nil {
		return nil, err
	}
	return ipc.NewReaderFromMessageReader(m, ipc.WithAllocator(allocator))
}

// places finds each column in a file's schema; a file may hold more columns than this build knows.
func places[R any](columns []column[R], schema *arrow.Schema) ([]int, error) {
	at := make([]int, len(columns))
	for i, c := range columns {
		found := schema.FieldIndices(c.name)
		if len(found) != 1 {
			return nil, fmt.Errorf("%d columns named %s, not one", len(found), c.name)
		}
		at[i] = found[0]
	}
	return at, nil
}

// checkRow keeps the promises of the format, on both ways.
func checkRow(meta ShardMeta, r *sample.Row) error {
	if meta.PolicyVersion != "" && r.PolicyVersion != meta.PolicyVersion {
		return fmt.Errorf("policy version %q in a shard of %q", r.PolicyVersion, meta.PolicyVersion)
	}
	return r.Check()
}

func (m ShardMeta) encode(rows int) arrow.Metadata {
	return arrow.NewMetadata(
		[]string{
			"millrace.schema", "millrace.shard", "millrace.policy_version", "millrace.reward_spec", "millrace.topic",
			"millrace.partition", "millrace.first_offset", "millrace.last_offset", "millrace.rows",
		},
		[]string{
			sample.SchemaVersion, m.ShardID, m.PolicyVersion, m.RewardSpec, m.Topic,
			strconv.Itoa(int(m.Partition)), strconv.FormatInt(m.FirstOffset, 10), strconv.FormatInt(m.LastOffset, 10), strconv.Itoa(rows),
		})
}

func decodeMeta(md arrow.Metadata) (meta ShardMeta, rows int, err error) {
	value := func(key string) string {
		i := md.FindKey("millrace." + key)
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("no millrace.%s in the schema's metadata", key))
			return ""
		}
		return md.Values()[i]
	}
	integer := func(key string, bits int) int64 {
		s := value(key)
		n, bad := strconv.ParseInt(s, 10, bits)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("millrace.%s is %q, not an integer", key, s))
		}
		return n
	}
	if v := value("schema"); v != sample.SchemaVersion {
		return ShardMeta{}, 0, fmt.Errorf("schema version %q; this build reads %s", v, sample.SchemaVersion)
	}
	meta = ShardMeta{
		ShardID: value("shard"), PolicyVersion: value("policy_version"), RewardSpec: value("reward_spec"), Topic: value("topic"),
		Partition: int32(integer("partition", 32)), FirstOffset: integer("first_offset", 64), LastOffset: integer("last_offset", 64),
	}
	rows = int(integer("rows", 64))
	return meta, rows, err
}

// recovered turns a panic of the codec into an error: v17 panics on what it doesn't expect.
func recovered(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: the Arrow codec gave up: %v", doing, p)
	}
}

// counted is a buffer that knows its position, which is all that the file writer seeks for.
type counted struct{ bytes.Buffer }

func (c *counted) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekCurrent {
		return 0, fmt.Errorf("a shard is written in one go: no seek to %d from %d", offset, whence)
	}
	return int64(c.Len()), nil
}
