package testkit

import (
	"testing"

	"github.com/alexedwards/argon2id"
)

// PasswordHash returns a hash of a password that can be verified in microseconds. Tests use it because hashes of
// package identity take 50 ms each, which would be most of the time of tests that sign users in.
func PasswordHash(t testing.TB, password string) string {
	t.Helper()
	hash, err := argon2id.CreateHash(password, &argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 8,
		KeyLength: 16})
	if err != nil {
		t.Fatal(err)
	}
	return hash
}
