package stipend_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namedTest    = regexp.MustCompile("`(Test\\w+)`")
)

// The threat model names the test of each control, so a removed test leaves no false statement.
func TestTheThreatModelNamesTestsThatExist(t *testing.T) {
	tests := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() && name != "." && strings.HasPrefix(e.Name(), ".") {
			if err == nil {
				err = filepath.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	model, err := os.ReadFile("docs/security/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	named := namedTest.FindAllStringSubmatch(string(model), -1)
	if len(named) < 50 {
		t.Errorf("%d tests are named", len(named))
	}
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("docs/security/threat-model.md names %s, which does not exist", m[1])
		}
	}
}
