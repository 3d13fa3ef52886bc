package eventlog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// SignatureHeader carries a control record's signature as "keyid:hex".
const SignatureHeader = "millrace-signature"

// ErrBadSignature says that a control record is unsigned, signed with an unknown key, or not what was signed.
var ErrBadSignature = errors.New("bad signature")

const minKeyBytes = 16

// Keyring signs control records with its active key and verifies them with any, so that keys can rotate.
type Keyring struct {
	keys   map[string][]byte
	active string
}

// NewKeyring makes a keyring of secrets by id; activeID is the one that signs. A secret has at least 16 bytes.
func NewKeyring(keys map[string][]byte, activeID string) (*Keyring, error) {
	if _, ok := keys[activeID]; !ok {
		return nil, fmt.Errorf("control keys: the active key %q is not among the %d given", activeID, len(keys))
	}
	for id, key := range keys {
		switch {
		case id == "" || strings.Contains(id, ":"):
			return nil, fmt.Errorf("control keys: %q is no key id; it must not be empty or hold ':'", id)
		case len(key) < minKeyBytes:
			return nil, fmt.Errorf("control keys: key %q has %d bytes; give at least %d", id, len(key), minKeyBytes)
		}
	}
	return &Keyring{keys: maps.Clone(keys), active: activeID}, nil
}

// Sign makes the signature header of a control record that is to stand in this partition of this topic.
func (k *Keyring) Sign(topic string, partition int32, key, value []byte) Header {
	mac := sign(k.keys[k.active], topic, partition, key, value)
	return Header{Key: SignatureHeader, Value: []byte(k.active + ":" + hex.EncodeToString(mac))}
}

// Verify checks a control record's signature; the error is ErrBadSignature. A nil keyring takes none.
func (k *Keyring) Verify(r Record) error {
	header, ok := r.Header(SignatureHeader)
	if !ok {
		return fmt.Errorf("%w: no header %s", ErrBadSignature, SignatureHeader)
	}
	id, digits, _ := strings.Cut(string(header), ":")
	given, err := hex.DecodeString(digits)
	if err != nil {
		return fmt.Errorf("%w: header %s is not keyid:hex", ErrBadSignature, SignatureHeader)
	}
	if k == nil || k.keys[id] == nil {
		return fmt.Errorf("%w: unknown key %q", ErrBadSignature, id)
	}
	if !hmac.Equal(given, sign(k.keys[id], r.Topic, r.Partition, r.Key, r.Value)) {
		return fmt.Errorf("%w: not what key %q signed for topic %s partition %d", ErrBadSignature, id, r.Topic, r.Partition)
	}
	return nil
}

// sign is HMAC-SHA256 over a label and each part behind its length, so that no two inputs run together.
func sign(secret []byte, topic string, partition int32, key, value []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	part := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		mac.Write(n[:])
		mac.Write(b)
	}
	var p [4]byte
	binary.BigEndian.PutUint32(p[:], uint32(partition))
	part([]byte("millrace control record 1"))
	part([]byte(topic))
	part(p[:])
	part(key)
	part(value)
	return mac.Sum(nil)
}
