package cli_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/stipend/stipend/cmd/stipend/cli"
	"github.com/stipend/stipend/internal/testkit"
)

var (
	codeLine = regexp.MustCompile(`^(?:    +)?(?:bin/)?stipend ([a-z].*)$`)
	inline   = regexp.MustCompile("`(?:bin/)?stipend ([a-z][^`]*)`")
	word     = regexp.MustCompile(`"[^"]*"|\S+`)
)

// A command that finds no service at its address says how to name another.
func TestACommandWithoutAServiceNamesTheFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Check(t, err)
	url := "http://" + l.Addr().String()
	testkit.Check(t, l.Close())
	err = cli.TriggerCmd{Client: cli.Client{URL: url, Key: "k"}, Event: "payroll.created", Timeout: time.Minute}.Run(
		t.Context(), cli.Streams{})
	if err == nil || !strings.Contains(err.Error(), "nothing listens at "+url) || !strings.Contains(err.Error(), "--url") {
		t.Errorf("%v", err)
	}
}

// What the documents tell an operator to type is a command with those flags: in a line of code a whole one, in
// running text its beginning.
func TestDocumentedCommandsExist(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files, err := filepath.Glob(filepath.Join(root, "*.md"))
	testkit.Check(t, err)
	for _, pattern := range []string{"docs/*.md", "docs/adr/*.md"} {
		more, err := filepath.Glob(filepath.Join(root, pattern))
		testkit.Check(t, err)
		files = append(files, more...)
	}
	cli := kong.Must(new(cli.CLI), cli.Options()...)
	lines := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		testkit.Check(t, err)
		for line := range strings.Lines(string(text)) {
			line = strings.TrimRight(line, "\n")
			if m := codeLine.FindStringSubmatch(line); m != nil {
				lines++
				if args := typed(m[1]); args[len(args)-1] != "--help" {
					if _, err := cli.Parse(args); err != nil {
						t.Errorf("%s: stipend %s: %v", filepath.Base(name), strings.Join(args, " "), err)
					}
				}
			}
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				lines++
				args := typed(m[1])
				trace, err := kong.Trace(cli, args)
				if err == nil {
					err = trace.Error
				}
				// A flag that is named alone may lack its value.
				if err != nil && !strings.Contains(err.Error(), "missing value") && !strings.Contains(err.Error(), "expected ") {
					t.Errorf("%s: stipend %s: %v", filepath.Base(name), strings.Join(args, " "), err)
				}
			}
		}
	}
	if lines < 60 {
		t.Errorf("found %d commands in the documents: does this test still know how they are written?", lines)
	}
}

// typed are the words of a command as a shell would hand them over, without what follows it.
func typed(line string) (args []string) {
	for _, w := range word.FindAllString(line, -1) {
		if w[0] == '#' || w == ">" || w == "|" || w == "&&" {
			break
		}
		args = append(args, strings.Trim(w, `"`))
	}
	return args
}

// A command that is written can be called: none is left out of the table.
func TestEveryCommandCanBeCalled(t *testing.T) {
	called := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(s reflect.Type) {
		called[s.Name()] = true
		for i := range s.NumField() {
			if f := s.Field(i); f.Type.Kind() == reflect.Struct {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[cli.CLI]())
	files, err := filepath.Glob("*.go")
	testkit.Check(t, err)
	for _, name := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		testkit.Check(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok && strings.HasSuffix(s.Name.Name, "Cmd") && !called[s.Name.Name] {
				t.Errorf("%s: no field of the command line has the type %s", name, s.Name.Name)
			}
			return true
		})
	}
}
