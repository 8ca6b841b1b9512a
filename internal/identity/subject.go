package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
)

// SubjectKey encrypts everything of one person or company that must one day be unreadable, in backups too: it is stored
// only wrapped by the service's data key, and destroying that one row destroys all that the key sealed.
type SubjectKey struct{ aead cipher.AEAD }

// NewSubjectKey makes a key for a subject, and its wrapped form for storing.
func (s *Sealer) NewSubjectKey(subjectID string) (wrapped string, key SubjectKey, err error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: the runtime ends the program instead
	if wrapped, err = s.Seal(subjectKeyAt(subjectID), secret); err != nil {
		return "", SubjectKey{}, err
	}
	key, err = newSubjectKey(secret)
	return wrapped, key, err
}

// OpenSubjectKey reads a wrapped key of a subject, or says ErrSealed.
func (s *Sealer) OpenSubjectKey(subjectID, wrapped string) (SubjectKey, error) {
	secret, err := s.Open(subjectKeyAt(subjectID), wrapped)
	if err != nil {
		return SubjectKey{}, err
	}
	return newSubjectKey(secret)
}

func subjectKeyAt(subjectID string) Place { return Place{"subjects", "wrapped_key", subjectID} }

func newSubjectKey(secret []byte) (SubjectKey, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return SubjectKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return SubjectKey{aead}, err
}

// Seal encrypts a value for its place, in binary form.
func (k SubjectKey) Seal(at Place, plain []byte) []byte {
	return k.aead.Seal(nil, nil, plain, at.bytes())
}

// Open decrypts what Seal made for the place, or says ErrSealed.
func (k SubjectKey) Open(at Place, sealed []byte) ([]byte, error) {
	plain, err := k.aead.Open(nil, nil, sealed, at.bytes())
	if err != nil {
		return nil, fmt.Errorf("%w: %s.%s of %s does not authenticate", ErrSealed, at.Table, at.Column, at.Row)
	}
	return plain, nil
}
