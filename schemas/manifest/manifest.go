package manifest

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// What stands in every manifest.
const (
	APIVersion = "millrace/v1"
	Kind       = "ShardManifest"
)

const maxSegment = 200 // bytes of a version's folder name; file systems end at 255

//go:embed manifest.schema.json
var schema []byte

// Schema is the JSON Schema of a manifest.
func Schema() []byte { return bytes.Clone(schema) }

// Shard is the manifest of one shard; manifest.schema.json says what its fields mean.
type Shard struct {
	APIVersion    string    `json:"apiVersion"`
	Kind          string    `json:"kind"`
	PolicyVersion string    `json:"policy_version"`
	Number        int64     `json:"number"`
	ID            string    `json:"id"`
	URI           string    `json:"uri"`
	Bytes         int64     `json:"bytes"`
	SHA256        string    `json:"sha256"`
	Rows          int64     `json:"rows"`
	TrainedTokens int64     `json:"trained_tokens"`
	RewardMean    float64   `json:"reward_mean"`
	Topic         string    `json:"topic"`
	Partition     int32     `json:"partition"`
	FirstOffset   int64     `json:"first_offset"`
	LastOffset    int64     `json:"last_offset"`
	RewardSpec    string    `json:"reward_spec"`
	Schema        string    `json:"schema"`
	LogTime       time.Time `json:"log_time"`
	Supersedes    []int64   `json:"supersedes,omitempty"`
}

// Encode is the manifest as it stands in the object store: the same shard gives the same bytes.
func (s Shard) Encode() ([]byte, error) {
	s.APIVersion, s.Kind, s.LogTime = APIVersion, Kind, s.LogTime.UTC()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return nil, fmt.Errorf("manifest %d of %s: %w", s.Number, s.PolicyVersion, err)
	}
	return b.Bytes(), nil
}

// Decode reads a manifest; unknown fields are left to newer readers.
func Decode(body []byte) (Shard, error) {
	var s Shard
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&s); err != nil {
		return Shard{}, fmt.Errorf("manifest: %w", err)
	}
	switch _, err := d.Token(); {
	case !errors.Is(err, io.EOF):
		return Shard{}, errors.New("manifest: something follows the document")
	case s.APIVersion != APIVersion || s.Kind != Kind:
		return Shard{}, fmt.Errorf("manifest: %s %s; want %s %s", s.APIVersion, s.Kind, APIVersion, Kind)
	case s.Number < 1 || s.ID == "" || s.URI == "" || len(s.SHA256) != 64:
		return Shard{}, fmt.Errorf("manifest %d of %s: number, id, uri or sha256 is missing", s.Number, s.PolicyVersion)
	}
	return s, nil
}

// Folder is the prefix under which the manifests of a policy version stand, with a slash at its end.
func Folder(policyVersion string) string { return "manifests/" + escape(policyVersion) + "/" }

// Key is where the manifest of a number stands.
func Key(policyVersion string, number int64) string {
	return Folder(policyVersion) + strconv.FormatInt(number, 10) + ".json"
}

// escape makes one segment of a key of any text. "%-" can't come out of the escaping itself, so a
// shortened text is never another's.
func escape(text string) string {
	if text == "." || text == ".." {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > maxSegment {
		return fmt.Sprintf("%s%%-%x", b.String()[:100], sha256.Sum256([]byte(text)))
	}
	return b.String()
}
