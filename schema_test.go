package stipend_test

import (
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/stipend/stipend/internal/db"
)

// table describes a table of the migrations. The comment above CREATE TABLE ends with a line "-- Writer: package". A
// table with keys that do not start with company_id has a line "-- Shared: reason." before it.
type table struct {
	file, about, shared, writer string
}

var (
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	tableHead   = regexp.MustCompile(`(?m)((?:^--[^\n]*\n)*)^CREATE TABLE (\w+) \(`)
	createTable = regexp.MustCompile(`(?is)CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s*\((.*?)\)\s*;`)
	createIndex = regexp.MustCompile(
		`(?is)CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s+ON\s+(\w+)\s*\(\s*(\w+)`)
	tableKey  = regexp.MustCompile(`(?is)\b(PRIMARY\s+KEY|UNIQUE|FOREIGN\s+KEY)\s*\(\s*(\w+)`)
	columnKey = regexp.MustCompile(`(?im)^\s*(\w+)\s[^,(]*\b(PRIMARY\s+KEY|UNIQUE)\b`)
)

// migrations returns the text of each migration by file name.
func migrations(t *testing.T) map[string]string {
	t.Helper()
	names, err := fs.Glob(db.Migrations(), "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	texts := map[string]string{}
	for _, name := range names {
		data, err := fs.ReadFile(db.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] = string(data)
	}
	return texts
}

// tables returns the tables by name.
func tables(t *testing.T) map[string]table {
	t.Helper()
	all := map[string]table{}
	for file, text := range migrations(t) {
		for _, m := range tableHead.FindAllStringSubmatch(text, -1) {
			one := table{file: file}
			for line := range strings.Lines(m[1]) {
				line = strings.TrimSpace(strings.TrimPrefix(line, "--"))
				if writer, ok := strings.CutPrefix(line, "Writer: "); ok {
					one.writer = writer
				} else if reason, ok := strings.CutPrefix(line, "Shared: "); ok {
					one.shared = reason
				} else if one.writer == "" && one.shared == "" {
					one.about += line + " "
				}
			}
			all[m[2]] = one
		}
	}
	return all
}

// After the first release an operator must know of each migration whether older processes can serve while it runs.
func TestEveryMigrationSaysIfItIsCompatible(t *testing.T) {
	for file, text := range migrations(t) {
		if number, err := goose.NumericComponent(path.Base(file)); err != nil || number <= 2 {
			continue // the first release
		}
		if said := strings.Contains("\n"+text, "\n"+db.Compatible+"\n"); said ==
			strings.Contains("\n"+text, "\n-- Incompatible: ") {
			t.Errorf("%s needs one line %q or \"-- Incompatible: REASON\"", file, db.Compatible)
		}
	}
}

func TestEveryTableIsDescribed(t *testing.T) {
	described := tables(t)
	packages := tree(t)
	for file, text := range migrations(t) {
		for _, m := range createTable.FindAllStringSubmatch(sqlComment.ReplaceAllString(text, ""), -1) {
			one := described[m[1]]
			if strings.TrimSpace(one.about) == "" {
				t.Errorf("%s: table %s has no comment above it: what is a row?", file, m[1])
			}
			if packages[one.writer] == nil {
				t.Errorf("%s: the writer of table %s is %q, want a line \"-- Writer: internal/…\" with a package", file, m[1],
					one.writer)
			}
		}
	}
}

// writes are the exceptions from the rule that only the named writer changes a table. The keys are files, or
// directories with all files below them.
var writes = map[string]string{
	"bench": "measures bare SQL, and prepares data for measurements",

	"internal/sandbox/store.go":  "seeds the sandbox with rows that have fixed IDs",
	"internal/identity/store.go": "deletes the authorization codes and device codes of apps and users",
}

var changesTable = regexp.MustCompile(`\b(?:INSERT\s+INTO|DELETE\s+FROM|UPDATE)\s+(\w+)`)

func TestEveryTableHasOneWriter(t *testing.T) {
	known := tables(t)
	used := map[string]bool{}
	check := func(f file, at, name string) {
		one, ok := known[name]
		if !ok || path.Dir(f.name) == one.writer || allowed(f.name, writes, used) {
			return
		}
		t.Errorf("%s: changes table %s, which only %s may change; call that package", at, name, one.writer)
	}
	eachCode(t, func(f file) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil {
					for _, m := range changesTable.FindAllStringSubmatch(s, -1) {
						check(f, f.at(n), m[1])
					}
				}
			case *ast.CallExpr: // tx.Insert(ctx, "table", …) and db.BulkInsert("table", …)
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				at, ok := map[string]int{"Insert": 1, "BulkInsert": 0}[sel.Sel.Name]
				if !ok || len(n.Args) <= at {
					return true
				}
				if lit, ok := n.Args[at].(*ast.BasicLit); ok {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						check(f, f.at(n), s)
					}
				}
			}
			return true
		})
	})
	unused(t, "writes", writes, used)
}

// Buffered rows are flushed before a statement that reads their table. A misspelled table name would prevent that.
func TestBufferedWritesNameExistingTables(t *testing.T) {
	known := tables(t)
	eachCode(t, func(f file) {
		if path.Dir(f.name) == "internal/db" {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || name.Sel.Name != "NewGroup" && name.Sel.Name != "BulkInsert" {
				return true
			}
			arguments := call.Args[1:] // the table names of NewGroup follow its function
			if name.Sel.Name == "BulkInsert" {
				arguments = call.Args[:1]
			}
			for _, a := range arguments {
				lit, ok := a.(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: name the tables of a group by string literals", f.at(call))
					continue
				}
				if _, exists := known[strings.Trim(lit.Value, `"`)]; !exists {
					t.Errorf("%s: there is no table %s", f.at(call), lit.Value)
				}
			}
			return true
		})
	})
}

// Every key and index of a table with rows of companies starts with company_id, so that PostgreSQL can distribute the
// rows over several machines by company.
func TestTheCompanyComesFirst(t *testing.T) {
	known := tables(t)
	used, numbers := map[string]bool{}, map[string]string{}
	check := func(where, name, what, column string) {
		switch {
		case column == "company_id":
		case known[name].shared != "":
			used[name] = true
		default:
			t.Errorf("%s: %s of table %s starts with %s, want company_id, or a line \"-- Shared: reason.\" above the table",
				where, what, name, column)
		}
	}
	for name, text := range migrations(t) {
		number, _, ok := strings.Cut(name, "_")
		if !ok || len(number) != 4 {
			t.Errorf("%s: want NNNN_name.sql", name)
		}
		if numbers[number] != "" {
			t.Errorf("%s and %s share a number", name, numbers[number])
		}
		numbers[number] = name
		if strings.Contains(text, "+goose Down") {
			t.Errorf("%s goes down; migrations go forward only", name)
		}
		text = sqlComment.ReplaceAllString(text, "")
		for _, m := range createTable.FindAllStringSubmatch(text, -1) {
			keys := 0
			for _, key := range tableKey.FindAllStringSubmatch(m[2], -1) {
				check(name, m[1], strings.ToLower(key[1]), key[2])
				keys++
			}
			for _, key := range columnKey.FindAllStringSubmatch(m[2], -1) {
				check(name, m[1], strings.ToLower(key[2]), key[1])
				keys++
			}
			if keys == 0 {
				t.Errorf("%s: table %s has no key", name, m[1])
			}
		}
		for _, m := range createIndex.FindAllStringSubmatch(text, -1) {
			check(name, m[2], "index "+m[1], m[3])
		}
	}
	for name, one := range known {
		if one.shared != "" && !used[name] {
			t.Errorf("%s: every key of table %s starts with company_id; remove its line \"-- Shared:\"", one.file, name)
		}
	}
}
