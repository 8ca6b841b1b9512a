package stipend_test

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// bannedWords are words that say too little or mean something else to a native reader. CONTRIBUTING.md has better ones.
var bannedWords = regexp.MustCompile(`(?i)\b(the house|house's|told|twins?|whoever|who asks|stands|looked at|by hand|` +
	`pay runs?|put right|handed in|lest|of which|the instant)\b`)

// maxColumns is the length of a line of Go.
const maxColumns = 120

// debt is the number of banned words and long lines left in each directory. The numbers only go down. A directory that
// is not listed has none.
var debt = map[string]struct{ words, lines int }{}

func TestTextIsPlainAndLinesAreShort(t *testing.T) {
	type count struct{ words, lines int }
	found := map[string]count{}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if e.IsDir() {
			switch e.Name() {
			case ".git", ".tools", "bin", "node_modules", "testdata", "stipend-data":
				return fs.SkipDir
			}
			return nil
		}
		ext := path.Ext(name)
		english := ext != ".json" || strings.HasPrefix(path.Base(name), "en")
		switch ext {
		case ".go", ".md", ".html", ".sql", ".json":
		default:
			return nil
		}
		if !english || name == "words_test.go" || strings.HasSuffix(name, "_gen.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		c := found[path.Dir(name)]
		c.words += len(bannedWords.FindAll(text, -1))
		for lines := bufio.NewScanner(bytes.NewReader(text)); ext == ".go" && lines.Scan(); {
			if utf8.RuneCountInString(lines.Text()) > maxColumns {
				c.lines++
			}
		}
		found[path.Dir(name)] = c
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, c := range found {
		if allowed := debt[dir]; c != (count{allowed.words, allowed.lines}) {
			t.Errorf("%q: {%d, %d}, // banned words and lines over %d columns; listed are %d and %d", dir, c.words, c.lines,
				maxColumns, allowed.words, allowed.lines)
		}
		delete(debt, dir)
	}
	for dir := range debt {
		t.Errorf("debt lists %q, which has nothing", dir)
	}
}
