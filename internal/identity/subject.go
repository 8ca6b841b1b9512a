package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
)

// SubjectKey encrypts the data of one person or company. The key is stored in one row, encrypted with the service's
// data key. Deleting that row makes all data of the person or company unreadable, also in backups.
type SubjectKey struct{ aead cipher.AEAD }

// NewSubjectKey returns a new key for a person or company, and its encrypted form to store.
func (s *Sealer) NewSubjectKey(subjectID string) (wrapped string, key SubjectKey, err error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never returns an error
	if wrapped, err = s.Seal(subjectKeyAt(subjectID), secret); err != nil {
		return "", SubjectKey{}, err
	}
	key, err = newSubjectKey(secret)
	return wrapped, key, err
}

// OpenSubjectKey decrypts the key of a person or company. It returns ErrSealed if that fails.
func (s *Sealer) OpenSubjectKey(subjectID, wrapped string) (SubjectKey, error) {
	secret, err := s.Open(subjectKeyAt(subjectID), wrapped)
	if err != nil {
		return SubjectKey{}, err
	}
	return newSubjectKey(secret)
}

func subjectKeyAt(subjectID string) SealContext {
	return SealContext{"subjects", "wrapped_key", subjectID}
}

func newSubjectKey(secret []byte) (SubjectKey, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return SubjectKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return SubjectKey{aead}, err
}

// Seal encrypts a value for a table, column and row. The result is binary.
func (k SubjectKey) Seal(at SealContext, plain []byte) []byte {
	return k.aead.Seal(nil, nil, plain, at.bytes())
}

// Open decrypts a value that [SubjectKey.Seal] encrypted for the same table, column and row, or returns ErrSealed.
func (k SubjectKey) Open(at SealContext, sealed []byte) ([]byte, error) {
	plain, err := k.aead.Open(nil, nil, sealed, at.bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: %s.%s of %s does not authenticate", ErrSealed, at.Table, at.Column, at.Row)
	}
	return plain, nil
}
