package payee

import "testing"

// SetFewMatches sets fewMatches until the test ends, so that a list of few recipients uses the queries for long
// lists.
func SetFewMatches(t *testing.T, n int) {
	before := fewMatches
	fewMatches = n
	t.Cleanup(func() { fewMatches = before })
}
