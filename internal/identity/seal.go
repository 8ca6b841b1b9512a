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

// SealContext is the table, column and row of an encrypted value. It is additional authenticated data, so a
// ciphertext that is copied to another row cannot be decrypted.
type SealContext struct{ Table, Column, Row string }

func (p SealContext) bytes() []byte { return []byte(p.Table + "\x00" + p.Column + "\x00" + p.Row) }

// Sealer encrypts personal data at rest with AES-256-GCM and a random nonce.
//
// The text form is "v1.<key>.<data>". The key name is derived from the key, so values encrypted with older keys can
// still be decrypted after a new key takes over. A nil Sealer returns errors.
type Sealer struct {
	current string
	keys    map[string]cipher.AEAD
}

// ErrSealed is an internal error: no key decrypts the value, or it was encrypted for another table, column or row.
var ErrSealed = errors.New("identity: sealed value cannot be opened")

// NewSealer returns a sealer with data keys of 32 bytes. The first one encrypts; all of them decrypt.
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

// Seal encrypts a value for a table, column and row.
func (s *Sealer) Seal(at SealContext, plain []byte) (string, error) {
	if s == nil {
		return "", errors.New("identity: no data key is set, personal data cannot be stored")
	}
	data := s.keys[s.current].Seal(nil, nil, plain, at.bytes())
	return "v1." + s.current + "." + base64.RawStdEncoding.EncodeToString(data), nil
}

// Open decrypts a value that was encrypted for the same table, column and row. Otherwise it returns ErrSealed.
func (s *Sealer) Open(at SealContext, sealed string) ([]byte, error) {
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
