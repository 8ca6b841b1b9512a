package payee

import "testing"

// SetFewMatches lowers fewMatches for one test.
func SetFewMatches(t *testing.T, n int) {
	before := fewMatches
	fewMatches = n
	t.Cleanup(func() { fewMatches = before })
}
