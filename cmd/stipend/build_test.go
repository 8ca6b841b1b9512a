package main

import (
	"debug/buildinfo"
	"strings"
	"testing"
)

// Patterns take time linear in the length of the text: no backtracking engine is linked.
func TestPatternsTakeLinearTime(t *testing.T) {
	info, err := buildinfo.ReadFile(build(t))
	if err != nil || len(info.Deps) == 0 {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		for _, engine := range []string{"regexp2", "pcre", "oniguruma"} {
			if strings.Contains(m.Path, engine) {
				t.Errorf("%s is built in", m.Path)
			}
		}
	}
}
