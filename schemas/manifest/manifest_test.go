package manifest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

var shard = Shard{
	PolicyVersion: "base/1 <ü>", Number: 3, ID: "events-3-0-9-ab", URI: "staging/events/3/x.arrow", Bytes: 12, SHA256: strings.Repeat("ab", 32),
	Rows: 3, TrainedTokens: 40, RewardMean: -0.1, Topic: "events", Partition: 3, FirstOffset: 0, LastOffset: 9, RewardSpec: "composer@1", Schema: "1",
	LogTime: time.Date(2026, 3, 1, 12, 0, 0, 1000, time.FixedZone("x", 3600)),
}

func validate(t *testing.T, body []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("manifest", doc))
	compiled, err := c.Compile("manifest")
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	require.NoError(t, err)
	return compiled.Validate(value)
}

func TestManifest(t *testing.T) {
	t.Parallel()
	body, err := shard.Encode()
	require.NoError(t, err)
	require.NoError(t, validate(t, body))
	require.Contains(t, string(body), `"base/1 <ü>"`)
	back, err := Decode(body)
	require.NoError(t, err)
	require.Equal(t, time.UTC, back.LogTime.Location())
	again, err := back.Encode()
	require.NoError(t, err)
	require.Equal(t, body, again)
	newer, err := Decode(bytes.Replace(body, []byte(`"number"`), []byte(`"later":1,"number"`), 1))
	require.NoError(t, err)
	require.EqualValues(t, 3, newer.Number)
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	body, err := shard.Encode()
	require.NoError(t, err)
	for want, change := range map[string][2]string{
		"want millrace/v1": {`"ShardManifest"`, `"CutManifest"`},
		"is missing":       {`"number":3`, `"number":0`},
		"follows":          {"}\n", "}{}"},
		"manifest: ":       {`"number":3`, `"number":"3"`},
	} {
		changed := strings.Replace(string(body), change[0], change[1], 1)
		require.NotEqual(t, string(body), changed)
		_, err := Decode([]byte(changed))
		require.ErrorContains(t, err, want)
	}
	require.Error(t, validate(t, []byte(`{"number":0}`)))
}

func TestKey(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"base-1.0_x":  "manifests/base-1.0_x/7.json",
		"a/b c":       "manifests/a%2Fb%20c/7.json",
		"..":          "manifests/%2E%2E/7.json",
		".":           "manifests/%2E/7.json",
		"...":         "manifests/.../7.json",
		"ü%2F":        "manifests/%C3%BC%252F/7.json",
		"sha256:abcd": "manifests/sha256%3Aabcd/7.json",
	} {
		require.Equal(t, want, Key(version, 7))
	}
	long := Folder(strings.Repeat("ü", 200))
	require.Len(t, long, len("manifests/")+100+2+64+1)
	require.NotEqual(t, long, Folder(strings.Repeat("ü", 201)))
}
