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

func TestTextIsPlainAndLinesAreShort(t *testing.T) {
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
		case ".go", ".md", ".html", ".sql", ".json", ".yml", ".sh":
		default:
			return nil
		}
		if !english || name == "words_test.go" || name == "texts_test.go" || strings.HasSuffix(name, "_gen.go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, len(text)+1)
		for n := 1; lines.Scan(); n++ {
			if word := bannedWords.FindString(lines.Text()); word != "" {
				t.Errorf("%s:%d: %q; see CONTRIBUTING.md for better words", name, n, word)
			}
			if ext == ".go" && utf8.RuneCountInString(lines.Text()) > maxColumns {
				t.Errorf("%s:%d: longer than %d columns", name, n, maxColumns)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
