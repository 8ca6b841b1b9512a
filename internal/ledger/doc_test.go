package ledger_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/testkit"
)

// source is the content of the source code that docs/ledger.md must match: for each package below internal, its
// functions, those that build postings, its tests, the purposes of its postings, and its string literals.
type source struct{ funcs, posting, tests, purposes, literals byPackage }

// byPackage is a set of names per package.
type byPackage map[string]map[string]bool

func (m byPackage) add(pkg, name string) {
	if m[pkg] == nil {
		m[pkg] = map[string]bool{}
	}
	m[pkg][name] = true
}

func readSource(t *testing.T) source {
	t.Helper()
	s := source{byPackage{}, byPackage{}, byPackage{}, byPackage{}, byPackage{}}
	files := token.NewFileSet()
	testkit.Check(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		if pkg == "." || pkg == ".." {
			pkg = "ledger"
		}
		isTest := strings.HasSuffix(path, "_test.go") || strings.HasSuffix(pkg, "test") ||
			strings.HasPrefix(pkg, "testkit/")
		posts := pkg == "ledger" || slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
			return strings.HasSuffix(i.Path.Value, `/internal/ledger"`)
		})
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if isTest {
				s.tests.add(pkg, fn.Name.Name)
				continue
			}
			s.funcs.add(pkg, fn.Name.Name)
			if posts {
				s.read(pkg, fn)
			}
		}
		return nil
	}))
	return s
}

// read adds the purposes and literals of a function, and notes whether it builds postings.
func (s source) read(pkg string, fn *ast.FuncDecl) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
				s.literals.add(pkg, prefix(text))
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Purpose" {
				s.purpose(pkg, n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "Purpose" && i < len(n.Rhs) {
					s.purpose(pkg, n.Rhs[i])
				}
			}
		case *ast.CallExpr:
			name, from := called(n)
			switch {
			case from == "ledger" && (name == "Debit" || name == "Credit" || name == "WalletLine"),
				pkg == "ledger" && from == "" && (name == "Debit" || name == "Credit"):
				s.posting.add(pkg, fn.Name.Name)
			case name == "post" || name == "absorb" || name == "purpose":
				for _, arg := range n.Args {
					if s.purpose(pkg, arg) {
						break
					}
				}
			}
		}
		return true
	})
}

func called(call *ast.CallExpr) (name, from string) {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name, ""
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return f.Sel.Name, x.Name
		}
		return f.Sel.Name, "?"
	}
	return "", ""
}

// purpose adds the literal beginning of an expression to the purposes, and reports whether there is one.
func (s source) purpose(pkg string, e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil || e.Kind != token.STRING || strings.HasPrefix(text, "%") {
			return false
		}
		s.purposes.add(pkg, prefix(text))
		return true
	case *ast.BinaryExpr:
		return s.purpose(pkg, e.X)
	case *ast.CallExpr:
		return len(e.Args) > 0 && s.purpose(pkg, e.Args[0])
	}
	return false
}

// prefix returns a purpose without the number or ID at its end.
func prefix(purpose string) string {
	return regexp.MustCompile(`[:. ].*`).ReplaceAllString(purpose, "")
}

var name = regexp.MustCompile("`([^`]+)`")

func names(cell string) (all []string) {
	for _, m := range name.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// docs/ledger.md lists every account, every purpose of a posting and every function that builds postings, and no
// others.
func TestEveryPostingRuleIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/ledger.md")
	testkit.Check(t, err)
	s := readSource(t)
	accounts, posting, purposes := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) == 4 && len(names(cells[0])) == 1: // code, name, normal side, meaning
			code := ledger.Code(names(cells[0])[0])
			accounts[string(code)] = true
			if code.Name() != cells[1] {
				t.Errorf("account %s is %q, not %q", code, code.Name(), cells[1])
			}
		case len(cells) == 6 && len(names(cells[4])) > 0: // when, debit, credit, purpose, functions, tests
			var pkg string
			for _, f := range names(cells[4]) {
				i := strings.LastIndex(f, ".")
				if i < 0 || !s.funcs[f[:i]][f[i+1:]] {
					t.Errorf("there is no function %s: %s", f, line)
					continue
				}
				pkg = f[:i]
				posting[f] = true
			}
			for _, p := range names(cells[3]) {
				purposes[pkg+"/"+p] = true
				if !s.purposes[pkg][p] && !s.literals[pkg][p] {
					t.Errorf("package %s posts nothing under %q: %s", pkg, p, line)
				}
			}
			if len(names(cells[5])) == 0 {
				t.Errorf("no test is named: %s", line)
			}
			for _, test := range names(cells[5]) {
				i := strings.LastIndex(test, ".")
				if i < 0 || !s.tests[test[:i]][test[i+1:]] {
					t.Errorf("there is no test %s: %s", test, line)
				}
			}
		}
	}
	for _, c := range ledger.Codes() {
		if !accounts[string(c)] {
			t.Errorf("docs/ledger.md lacks account %s, %s", c, c.Name())
		}
	}
	for pkg, all := range s.posting {
		for f := range all {
			if !posting[pkg+"."+f] {
				t.Errorf("docs/ledger.md lacks the function %s.%s, which builds a posting", pkg, f)
			}
		}
	}
	for pkg, all := range s.purposes {
		for p := range all {
			if !purposes[pkg+"/"+p] && len(s.posting[pkg]) > 0 {
				t.Errorf("docs/ledger.md lacks the purpose %q of package %s", p, pkg)
			}
		}
	}
}
