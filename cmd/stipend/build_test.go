package main

import (
	"debug/buildinfo"
	"strings"
	"testing"
)

// The program compares text with patterns in time that grows with the text alone: no engine that tries again and again
// is built in.
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
