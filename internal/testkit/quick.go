// Package testkit supports tests: it decides what a quick run leaves out. Its subpackages have fixtures.
package testkit

import "testing"

// NotQuick leaves a test out of a quick run (go test -short, make quick), because it needs something that such a run does not
// have: PostgreSQL, a node, a browser, another program, or minutes. A full run never leaves a test out.
func NotQuick(t testing.TB, needs string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("not in a quick run: it needs %s", needs)
	}
}
