package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SealContext is the table, column and row of an encrypted value. It is authenticated together with the value, so a
// ciphertext that is copied to another place cannot be decrypted there.
type SealContext struct{ Table, Column, Row string }

func (p SealContext) bytes() []byte { return []byte(p.Table + "\x00" + p.Column + "\x00" + p.Row) }

// Sealer encrypts personal data at rest with AES-256-GCM and random nonces.
//
// The text form is "v1.<key>.<data>". The name of the key is derived from the key. Values that were encrypted with an
// older key can still be decrypted after a new key was added, until [Sealer.Reseal] has encrypted them with the new
// key. The methods of a nil Sealer return errors.
type Sealer struct {
	current string
	keys    map[string]dataKey
}

// dataKey is a data key in two modes: with random nonces, and with nonces given by the caller.
type dataKey struct{ random, given cipher.AEAD }

// ErrSealed is an internal error: no key decrypts the value, or the value was encrypted for another table, column or
// row.
var ErrSealed = errors.New("identity: sealed value cannot be opened")

// NewSealer returns a sealer with data keys of 32 bytes each. The first key encrypts and decrypts; the others only
// decrypt.
func NewSealer(keys ...[]byte) (*Sealer, error) {
	if len(keys) == 0 {
		return nil, errors.New("identity: a sealer needs a data key")
	}
	s := &Sealer{keys: make(map[string]dataKey, len(keys))}
	for i, key := range keys {
		if len(key) != 32 {
			return nil, fmt.Errorf("identity: data key %d has %d bytes, not 32", i+1, len(key))
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		var k dataKey
		if k.random, err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
		if k.given, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(append([]byte("stipend data key\x00"), key...))
		name := hex.EncodeToString(sum[:4])
		if s.current == "" {
			s.current = name
		}
		s.keys[name] = k
	}
	return s, nil
}

// Key returns the name of the key that encrypts.
func (s *Sealer) Key() string { return s.current }

// OtherKeys returns the sorted names of the keys that only decrypt.
func (s *Sealer) OtherKeys() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.keys)), func(name string) bool { return name == s.current })
}

// Seal encrypts a value for a table, column and row.
func (s *Sealer) Seal(at SealContext, plain []byte) (string, error) {
	if s == nil {
		return "", errors.New("identity: no data key is set, personal data cannot be stored")
	}
	data := s.keys[s.current].random.Seal(nil, nil, plain, at.bytes())
	return "v1." + s.current + "." + base64.RawStdEncoding.EncodeToString(data), nil
}

// Open decrypts a value that was encrypted for the given table, column and row. Otherwise it returns ErrSealed.
func (s *Sealer) Open(at SealContext, sealed string) ([]byte, error) {
	plain, _, _, err := s.open(at, sealed)
	return plain, err
}

// open decrypts a value and returns the value, its nonce, and the name of its key.
func (s *Sealer) open(at SealContext, sealed string) (plain, nonce []byte, key string, err error) {
	if s == nil {
		return nil, nil, "", fmt.Errorf("%w: no data key is set", ErrSealed)
	}
	form, rest, _ := strings.Cut(sealed, ".")
	key, text, ok := strings.Cut(rest, ".")
	k, known := s.keys[key]
	if !ok || form != "v1" || !known {
		return nil, nil, "", fmt.Errorf("%w: %s.%s of %s has an unknown form or key", ErrSealed, at.Table, at.Column, at.Row)
	}
	data, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, nil, "", fmt.Errorf("%w: %s.%s of %s is not base64", ErrSealed, at.Table, at.Column, at.Row)
	}
	if plain, err = k.random.Open(nil, nil, data, at.bytes()); err != nil {
		return nil, nil, "", fmt.Errorf("%w: %s.%s of %s does not authenticate", ErrSealed, at.Table, at.Column, at.Row)
	}
	return plain, data[:k.given.NonceSize()], key, nil
}

// Reseal decrypts a value and encrypts it with the current key. It keeps the nonce, so that copies of a value stay
// equal to each other and [SealID] stays the same. This is safe because the nonce is random, and therefore as
// unlikely to repeat under the new key as a new one.
func (s *Sealer) Reseal(at SealContext, sealed string) (string, error) {
	plain, nonce, key, err := s.open(at, sealed)
	if err != nil || key == s.current {
		return sealed, err
	}
	data := s.keys[s.current].given.Seal(nonce, nonce, plain, at.bytes())
	return "v1." + s.current + "." + base64.RawStdEncoding.EncodeToString(data), nil
}

// SealID returns the nonce of an encrypted value as text, which identifies the value, or "" for "". Values with the
// same ID have the same plaintext, even if different keys encrypt them. In SQL it is SUBSTR(value, 13, 16).
func SealID(sealed string) string {
	const start = len("v1.01234567.")
	rest := sealed[min(start, len(sealed)):]
	return rest[:min(16, len(rest))] // 12 bytes in base64
}
