// Package testkit supports tests: it determines the tests that a quick run omits, and shortens error checks. Its
// subpackages contain fixtures.
package testkit

import "testing"

// NotQuick skips a test in a quick run (go test -short, make quick) because the test needs something that such a run
// does not have: PostgreSQL, a node, a browser, another program, or more than a few seconds. A full run skips no
// test.
func NotQuick(t testing.TB, needs string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("not in a quick run: it needs %s", needs)
	}
}
