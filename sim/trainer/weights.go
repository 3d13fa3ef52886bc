package trainer

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

const weightsFile = "model.safetensors"

// safetensors is the one tensor of the policy in the format of that name: the length of a JSON header, the header
// padded to eight bytes, then the numbers. The same logits always give the same bytes.
func safetensors(logits [classes]float32, base, cut string) ([]byte, error) {
	header, err := json.Marshal(map[string]any{
		"__metadata__":  map[string]string{"base": base, "cut": cut, "format": "pt"},
		"policy.logits": map[string]any{"dtype": "F32", "shape": []int{classes}, "data_offsets": []int{0, 4 * classes}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the header of the weights: %w", err)
	}
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	var b bytes.Buffer
	for _, part := range []any{uint64(len(header)), header, logits} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			return nil, fmt.Errorf("encode the weights: %w", err)
		}
	}
	return b.Bytes(), nil
}

// write puts the weights into the outbox, whole or not at all.
func (t *Trainer) write(version string, weights []byte) (folder string, err error) {
	folder = filepath.Join(t.cfg.Outbox, version)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("make the folder of %s: %w", version, err)
	}
	f, err := os.CreateTemp(folder, weightsFile+".*")
	if err != nil {
		return "", fmt.Errorf("write the weights of %s: %w", version, err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // gone already if all went well
	_, err = f.Write(weights)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, weightsFile))
	}
	if err != nil {
		return "", fmt.Errorf("write the weights of %s: %w", version, err)
	}
	return folder, nil
}
