package eventlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/schemas/event"
)

func newKeyring(t *testing.T, active string) *Keyring {
	t.Helper()
	k, err := NewKeyring(map[string][]byte{"a": []byte("the first secret key"), "b": []byte("the second secret key")}, active)
	require.NoError(t, err)
	return k
}

func TestNewKeyring(t *testing.T) {
	t.Parallel()
	key := []byte("0123456789abcdef")
	for name, c := range map[string]struct {
		keys   map[string][]byte
		active string
	}{
		"no active key": {map[string][]byte{"a": key}, "b"},
		"no keys":       {nil, ""},
		"a short key":   {map[string][]byte{"a": key, "b": key[:15]}, "a"},
		"a bad id":      {map[string][]byte{"a:b": key}, "a:b"},
	} {
		_, err := NewKeyring(c.keys, c.active)
		require.Error(t, err, name)
	}
}

func TestControlReachesEveryPartition(t *testing.T) {
	t.Parallel()
	_, cfg := startBroker(t, 4)
	w, r := openWriter(t, cfg, cfg.Topic), openReader(t, cfg)
	k := newKeyring(t, "a")
	record := &event.ControlRecord{Id: "c1", Body: &event.ControlRecord_CutMarked{CutMarked: &event.CutMarked{Cut: "cut-1"}}}
	at := time.UnixMilli(1_800_000_000_000).UTC()
	require.NoError(t, WriteControl(deadline(t), w, k, cfg, record, at))
	require.NoError(t, WriteControlTo(deadline(t), w, k, cfg, 2,
		&event.ControlRecord{Id: "c2", Body: &event.ControlRecord_Tick{Tick: &event.Tick{}}}, at))
	for p := range int32(4) {
		records := readAll(t, r, p, 0)
		require.Len(t, records, map[bool]int{true: 2, false: 1}[p == 2])
		// The key doesn't hash to every partition: the signature says where a control record belongs.
		ev, control, reject := Decode(records[0], newKeyring(t, "b"), 4)
		require.Empty(t, reject)
		require.Nil(t, ev)
		require.Equal(t, "cut-1", control.GetCutMarked().GetCut())
		require.Equal(t, at, records[0].Time)
	}
	require.Error(t, WriteControl(deadline(t), w, k, cfg, &event.ControlRecord{Id: "c3"}, at), "no body")
	require.Error(t, WriteControl(deadline(t), openWriter(t, cfg, cfg.DeadLetterTopic()), k, cfg, record, at), "another topic")
	require.ErrorContains(t, WriteControlTo(deadline(t), w, k, cfg, 9, record, at), "not 9")
}

func TestForgedControl(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, "a")
	value, err := (&event.ControlRecord{Id: "c1", Body: &event.ControlRecord_Tick{Tick: &event.Tick{}}}).MarshalVT()
	require.NoError(t, err)
	key := controlKey("c1")
	content := Header{ContentTypeHeader, []byte(controlContentType)}
	good := func() Record {
		return Record{Topic: "events", Partition: 1, Key: key, Value: value, Headers: []Header{content, k.Sign("events", 1, key, value)}}
	}
	_, control, reject := Decode(good(), k, 4)
	require.Empty(t, reject)
	require.Equal(t, "c1", control.Id)

	stranger, err := NewKeyring(map[string][]byte{"a": []byte("a stranger's own key"), "z": []byte("a stranger's own key")}, "z")
	require.NoError(t, err)
	for name, change := range map[string]func(*Record){
		"unsigned":             func(r *Record) { r.Headers = r.Headers[:1] },
		"another topic":        func(r *Record) { r.Topic = "events2" },
		"another partition":    func(r *Record) { r.Partition = 2 },
		"another key":          func(r *Record) { r.Key = controlKey("c2") },
		"another value":        func(r *Record) { r.Value = append([]byte(nil), append(value, 0x0a, 0)...) },
		"no value":             func(r *Record) { r.Value = nil },
		"an unknown key":       func(r *Record) { r.Headers[1] = stranger.Sign("events", 1, key, value) },
		"a forged known key":   func(r *Record) { s := *stranger; s.active = "a"; r.Headers[1] = s.Sign("events", 1, key, value) },
		"not hexadecimal":      func(r *Record) { r.Headers[1].Value = []byte("a:xyz") },
		"no colon":             func(r *Record) { r.Headers[1].Value = []byte("a") },
		"an empty signature":   func(r *Record) { r.Headers[1].Value = []byte("a:") },
		"an empty header":      func(r *Record) { r.Headers[1].Value = nil },
		"a shortened sum":      func(r *Record) { r.Headers[1].Value = r.Headers[1].Value[:20] },
		"value moved into key": func(r *Record) { r.Key, r.Value = append(append([]byte(nil), key...), value[0]), value[1:] },
	} {
		r := good()
		change(&r)
		ev, control, reject := Decode(r, k, 4)
		require.Equal(t, RejectBadSignature, reject, name)
		require.Nil(t, ev, name)
		require.Nil(t, control, name)
	}
	_, _, reject = Decode(good(), nil, 4)
	require.Equal(t, RejectBadSignature, reject, "no keys: no control record is believed")
}

func TestSignedNonsense(t *testing.T) {
	t.Parallel()
	k := newKeyring(t, "b")
	for want, c := range map[string]struct{ key, value []byte }{
		RejectUndecodable: {controlKey("c"), []byte{0x0a, 0xff}},
		RejectKeyMismatch: {[]byte("control:d"), []byte{0x0a, 1, 'c', 0x7a, 0}},
		RejectUnknownBody: {controlKey("c"), []byte{0x0a, 1, 'c'}},
	} {
		_, _, reject := Decode(Record{
			Topic: "events", Key: c.key, Value: c.value,
			Headers: []Header{{ContentTypeHeader, []byte(controlContentType)}, k.Sign("events", 0, c.key, c.value)},
		}, k, 1)
		require.Equal(t, want, reject)
	}
}
