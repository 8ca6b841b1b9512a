package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Place is where a sealed value is stored. It is authenticated with the value, so ciphertext copied to another
// row or column does not open there.
type Place struct{ Table, Column, Row string }

func (p Place) bytes() []byte { return []byte(p.Table + "\x00" + p.Column + "\x00" + p.Row) }

// Sealer encrypts personal data at rest with AES-256-GCM under a random nonce.
//
// The text form is "v1.<key>.<data>": the name of the key comes from the key itself, so a new key can take over while
// values sealed with older ones still open. A nil Sealer seals and opens nothing and says so.
type Sealer struct {
	current string
	keys    map[string]cipher.AEAD
}

// ErrSealed is an internal error: a value that no key at hand opens, or that stands in a place it was not sealed for.
var ErrSealed = errors.New("identity: sealed value cannot be opened")

// NewSealer takes data keys of 32 bytes. The first one seals; all of them open.
func NewSealer(keys ...[]byte) (*Sealer, error) {
	if len(keys) == 0 {
		return nil, errors.New("identity: a sealer needs a data key")
	}
	s := &Sealer{keys: make(map[string]cipher.AEAD, len(keys))}
	for i, key := range keys {
		if len(key) != 32 {
			return nil, fmt.Errorf("identity: data key %d has %d bytes, not 32", i+1, len(key))
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte("stipend data key\x00"), key...))
		name := hex.EncodeToString(sum[:4])
		if s.current == "" {
			s.current = name
		}
		s.keys[name] = aead
	}
	return s, nil
}

// Seal encrypts a value for its place.
func (s *Sealer) Seal(at Place, plain []byte) (string, error) {
	if s == nil {
		return "", errors.New("identity: no data key is set, personal data cannot be stored")
	}
	data := s.keys[s.current].Seal(nil, nil, plain, at.bytes())
	return "v1." + s.current + "." + base64.RawStdEncoding.EncodeToString(data), nil
}

// Open decrypts a value that was sealed for the place, or says ErrSealed.
func (s *Sealer) Open(at Place, sealed string) ([]byte, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: no data key is set", ErrSealed)
	}
	form, rest, _ := strings.Cut(sealed, ".")
	name, text, ok := strings.Cut(rest, ".")
	aead := s.keys[name]
	if !ok || form != "v1" || aead == nil {
		return nil, fmt.Errorf("%w: %s.%s of %s has an unknown form or key", ErrSealed, at.Table, at.Column, at.Row)
	}
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s.%s of %s is not base64", ErrSealed, at.Table, at.Column, at.Row)
	}
	plain, err := aead.Open(nil, nil, data, at.bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: %s.%s of %s does not authenticate", ErrSealed, at.Table, at.Column, at.Row)
	}
	return plain, nil
}
