package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// secrets are the keys of a local `millrace up`, made once and kept in its data folder, readable by its owner only.
type secrets struct {
	ControlKey string `json:"control_key"`
	UnitKey    string `json:"unit_key"`
}

func loadSecrets(dir string) (secrets, error) {
	path := filepath.Join(dir, "secrets.json")
	body, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		s := secrets{ControlKey: randomHex(), UnitKey: randomHex()}
		body, err = json.Marshal(s)
		if err != nil {
			return s, err
		}
		return s, writePrivate(path, body)
	}
	if err != nil {
		return secrets{}, fmt.Errorf("reading the keys: %w", err)
	}
	var s secrets
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func randomHex() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: see crypto/rand
	return hex.EncodeToString(b)
}

// writePrivate writes a file that only its owner reads, whole or not at all.
func writePrivate(path string, body []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) //nolint:errcheck // gone already if all went well
	_, err = temp.Write(body)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
