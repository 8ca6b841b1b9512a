// Package stipend_test checks rules about the source tree, such as the import graph. Each exception is an entry of a
// list below, with its reason. An entry that is no longer needed fails the test, too.
package stipend_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/stipend/stipend"

// layers are the packages from the bottom up. A package imports packages of lower layers only. A package in a
// subdirectory belongs to its parent's layer unless it is listed.
var layers = [][]string{
	{"internal/apierr", "internal/country", "internal/docsite", "internal/mcp", "internal/testkit"},
	{"internal/money", "internal/ratelimit"},
	{"internal/db"},
	{"internal/offering", "internal/legal"},
	{"internal/metadata", "internal/testkit/allow", "internal/job", "internal/ledger", "internal/requestlog",
		"internal/securitylog", "internal/identity"},
	{"internal/auth/session", "internal/web/ui/texts", "internal/datakey"},
	{"internal/mail"},
	{"internal/auth"},
	{"internal/webhook", "internal/chain", "internal/lightning", "internal/rates", "internal/screening"},
	{"internal/oauth", "internal/treasury", "internal/signer", "internal/auth/sso"},
	{"internal/receivable", "internal/receivable/quote", "internal/approval", "internal/payee",
		"internal/payee/destination", "internal/invoice/payer", "internal/receivable/deposit", "internal/payout",
		"internal/payroll", "internal/invoice", "internal/wallet", "internal/virtualaccount"},
	{"internal/income"},
	{"internal/kyc", "internal/bankreceipt", "internal/directdebit", "internal/notification"},
	{"internal/invoice/vendorbill", "internal/withdrawal", "internal/travelrule", "internal/branding",
		"internal/payroll/schedule", "internal/platform", "internal/earnings"},
	{"internal/claim"},
	{"internal/paymentlink", "internal/invoice/checkout", "internal/proposal", "internal/backoffice",
		"internal/accounting", "internal/document"},
	{"internal/httpapi", "internal/web"},
	{"internal/sandbox"},
	{"internal/app"},
	{"internal/simulation"},
	{"cmd/stipend"},
}

// outside are packages that use the service as a client does. They are in no layer, and nothing imports them.
var outside = []string{"bench", "docs", "sdk", "tools"}

// sideways lists the imports between packages of one layer, with the reason for each.
var sideways = map[string]string{
	"internal/payroll → internal/receivable/quote": "a payroll requests its quote and accepts it in its own " +
		"transaction",
	"internal/payroll → internal/receivable":            "a payroll asks what the money received for it pays",
	"internal/receivable → internal/receivable/deposit": "what was received is facts of the verdict",
	"internal/receivable → internal/receivable/quote":   "what deposits are worth is facts of the verdict",
	"internal/approval → internal/receivable/quote": "an amount in another currency is compared with a limit " +
		"at the present price",
	"internal/payroll → internal/approval": "a payroll above its company's limit needs a second member",
	"internal/payroll → internal/payee":    "a payroll reads its payees when it is planned",
	"internal/payroll → internal/payee/destination": "a payroll copies each payee's destinations when it is " +
		"planned",
	"internal/payroll → internal/wallet": "a payroll that names a wallet is funded in its currency",
	"internal/payroll → internal/invoice": "a payroll marks the invoices that it pays as paid; they " +
		"refer to it by id only",
	"internal/invoice → internal/invoice/payer": "an invoice names a payer, who cannot be deleted while " +
		"it is being paid",
	"internal/payroll → internal/receivable/deposit": "a payroll counts the deposits received for it",
	"internal/payee/destination → internal/payee": "who owns a destination, and may change it, is decided " +
		"by package payee",
	"internal/receivable/deposit → internal/receivable/quote": "a deposit is worth what the quote in force said when it " +
		"was first seen",
	"internal/payroll → internal/payout": "a released payroll queues its outputs, and reads their " +
		"final states",
}

// Exceptions to the rules. The keys are packages, including those below them, or single files.
var (
	clockAndChance = map[string]string{
		"internal/db":           "makes the time and the ids of a transaction",
		"internal/app":          "starts the process: configuration and loops",
		"cmd/stipend/cli":       "makes keys, and signs events that it forwards",
		"internal/sandbox/demo": "follows a payroll in real time",
		"internal/job":          "waits for what is due",
		"internal/simulation":   "moves the clock of its runs, and chooses by their seeds",

		"bench":                         "measures time, which is the machine's and not a transaction's",
		"internal/identity/token.go":    "makes secrets, which must come from the system's randomness",
		"internal/identity/subject.go":  "makes keys, which must come from the system's randomness",
		"internal/payout/bank/sftp.go":  "measures how long a bank's server takes",
		"internal/payout/bank/modulr":   "signs requests with the bank's time and a number that is used once",
		"sdk":                           "runs at the caller: makes idempotency keys, and checks the age of deliveries",
		"docs/samples":                  "shows a receiver, which compares a delivery's time with its own clock",
		"internal/sandbox/lightningsim": "draws the secrets of a simulated node",
		"internal/lightning":            "draws preimages, which must come from the system's randomness",
		"internal/webhook/delivery": "measures receivers, spreads attempts, and signs for clocks that are not the " +
			"sandbox's",
	}
	environment = map[string]string{
		"cmd/stipend/cli/client.go": "follows the conventions of terminals: NO_COLOR and TERM",
		"bench":                     "hands its own to the program that it builds",
		"tools/release":             "has the key of signatures from it, and hands it to the compiler",
		"internal/db/dbtest":        "finds the PostgreSQL server to test on",
	}
	sqlText = map[string]string{
		"internal/db": "opens the database, and has its schema",
		"bench":       "measures the same rows written by bare SQL",
	}
	servers = map[string]string{
		"internal/httpapi": "serves the API",
		"internal/app":     "listens, and stops in order",
		"internal/signer":  "listens for the service, in a process of its own",
		"bench":            "measures a bare server for comparison",
	}
)

// floats are the files that use floating-point numbers for values other than money.
var floats = map[string]string{
	"bench":                                     "rates, times and shares",
	"internal/branding/color.go":                "contrast of colors",
	"internal/httpapi/auth.go":                  "how many requests a second",
	"internal/httpapi/http.go":                  "how many requests a second",
	"internal/httpapi/oauth.go":                 "how many requests a second",
	"internal/app/http.go":                      "how many requests a second",
	"internal/app/metrics.go":                   "what Prometheus counts in",
	"internal/ratelimit":                        "how many requests a second",
	"internal/web/ui/web.go":                    "how many requests a second",
	"internal/web/ui/chart.go":                  "points of a picture",
	"internal/web/payee/hosted.go":              "widths on paper",
	"internal/document":                         "widths on paper",
	"internal/web/company/settings_requests.go": "milliseconds, to be read",
}

// skips are the tests that may skip themselves.
var skips = map[string]string{
	"internal/db/dbtest/dbtest_test.go": "with a server that somebody else runs there is none to start",
}

func TestPackagesAreDocumented(t *testing.T) {
	for dir, files := range tree(t) {
		var docs []string
		for _, f := range files {
			if !f.test && f.ast.Doc != nil {
				docs = append(docs, f.ast.Doc.Text())
			}
		}
		name := strings.TrimSuffix(files[0].ast.Name.Name, "_test")
		if !slices.ContainsFunc(files, func(f file) bool { return !f.test }) {
			continue
		}
		if name == "main" {
			name = path.Base(dir)
		}
		want := regexp.MustCompile(`^(Package|Command|Program) ` + regexp.QuoteMeta(name) + `\b|^` +
			regexp.QuoteMeta(strings.ToUpper(name[:1])+name[1:]) + `\b`)
		switch {
		case len(docs) == 0:
			t.Errorf("%s: no package comment; say what the package owns and what it never does", dir)
		case len(docs) > 1:
			t.Errorf("%s: %d package comments; keep one", dir, len(docs))
		case !want.MatchString(docs[0]):
			t.Errorf("%s: the package comment starts %q, want %q", dir, firstLine(docs[0]), "Package "+name+" …")
		}
	}
}

func TestImportsGoDownOnly(t *testing.T) {
	used := map[string]bool{}
	for dir, files := range tree(t) {
		if dir == "." || slices.Contains(outside, top(dir)) || testSupport(dir) {
			continue
		}
		from, ok := layer(dir)
		if !ok {
			t.Errorf("%s is in no layer: add it to layers in arch_test.go", dir)
			continue
		}
		for _, f := range files {
			if f.test { // tests may import any package
				continue
			}
			for _, spec := range f.ast.Imports {
				name, _ := strconv.Unquote(spec.Path.Value)
				target, ours := strings.CutPrefix(name, module+"/")
				if !ours {
					continue
				}
				to, ok := layer(target)
				edge := base(dir) + " → " + base(target)
				switch {
				case !ok:
					t.Errorf("%s imports %s, which is in no layer", f.name, target)
				case strings.HasSuffix(target, "test"):
					t.Errorf("%s imports %s, which is for tests", f.name, target)
				case to < from, base(dir) == base(target):
				case to == from && sideways[edge] != "":
					used[edge] = true
				case to == from:
					t.Errorf("%s imports %s of its own layer; if that is necessary, list %q with its reason", f.name, target, edge)
				default:
					t.Errorf("%s imports %s, which is in a higher layer", f.name, target)
				}
			}
		}
	}
	unused(t, "sideways", sideways, used)
}

func TestOnlyListedPackagesReadTheClock(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		if allowed(f.name, clockAndChance, used) {
			return
		}
		for _, name := range []string{"math/rand", "math/rand/v2", "crypto/rand"} {
			if f.imports(name) != "" {
				t.Errorf("%s imports %s; ids come from tx.NewID, and what else needs chance is listed in arch_test.go", f.name,
					name)
			}
		}
		f.uses("time", []string{"Now", "Since", "Until"}, func(at, what string) {
			t.Errorf("%s: %s; the time of a transaction is tx.Now", at, what)
		})
	})
	unused(t, "clockAndChance", clockAndChance, used)
}

func TestOnlyListedPackagesReadTheEnvironment(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		f.uses("os", []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}, func(at, what string) {
			if !allowed(f.name, environment, used) {
				t.Errorf("%s: %s; what can be set is a field of app.Config", at, what)
			}
		})
	})
	unused(t, "environment", environment, used)
}

// statement matches the start of an SQL statement, which is written in capitals.
var statement = regexp.MustCompile(`^\s*(SELECT\s|INSERT INTO\s|UPDATE\s+\S+\s+SET\b|` +
	`DELETE FROM\s|WITH\s+\w+.*\sAS\s*\(|CREATE\s+(TABLE|INDEX|UNIQUE)|DROP\s|ALTER\s)`)

// isStore reports whether a file may have SQL: store.go, or one part of a large store, such as store_list.go.
func isStore(name string) bool {
	base := path.Base(name)
	return base == "store.go" || strings.HasPrefix(base, "store_")
}

func TestSQLIsInTheStores(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		if isStore(f.name) {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			if s, err := strconv.Unquote(text.Value); err == nil && statement.MatchString(s) && !allowed(f.name, sqlText, used) {
				t.Errorf("%s: SQL outside a store file: %q", f.at(n), firstLine(s))
			}
			return true
		})
		for _, name := range []string{"database/sql", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool"} {
			if f.imports(name) != "" && !allowed(f.name, sqlText, used) {
				t.Errorf("%s imports %s; only package db opens the database", f.name, name)
			}
		}
	})
	unused(t, "sqlText", sqlText, used)
}

func TestOnlyListedPackagesServeHTTP(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		f.uses("net/http", []string{"Server", "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"},
			func(at, what string) {
				if !allowed(f.name, servers, used) {
					t.Errorf("%s: %s; only the listed packages serve HTTP", at, what)
				}
			})
	})
	unused(t, "servers", servers, used)
}

func TestAmountsAreNeverFloats(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		report := func(n ast.Node, what string) {
			if !allowed(f.name, floats, used) {
				t.Errorf("%s: %s; amounts are integers all the way, and what is no amount is listed in arch_test.go", f.at(n), what)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if n.Name == "float64" || n.Name == "float32" {
					report(n, n.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.FLOAT {
					report(n, "the float "+n.Value)
				}
			case *ast.SelectorExpr:
				if slices.Contains([]string{"Float64", "InexactFloat64", "ParseFloat", "NewFromFloat"}, n.Sel.Name) {
					report(n, n.Sel.Name)
				}
			}
			return true
		})
	})
	unused(t, "floats", floats, used)
}

// A skipped test looks like a successful one. A test that sleeps is slow on a fast machine and fails on a slow one.
func TestTestsNeitherSkipNorSleep(t *testing.T) {
	used := map[string]bool{}
	for _, files := range tree(t) {
		for _, f := range files {
			if !f.test {
				continue
			}
			f.uses("time", []string{"Sleep"}, func(at, what string) {
				t.Errorf("%s: %s; wait for what must be there", at, what)
			})
			ast.Inspect(f.ast, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) && !allowed(f.name, skips, used) {
					t.Errorf("%s: %s; what a test needs is installed, or the test fails", f.at(n), sel.Sel.Name)
				}
				return true
			})
		}
	}
	unused(t, "skips", skips, used)
}

// The list of packages in docs/architecture.md has the same order as layers, from the highest to the lowest.
func TestArchitectureDocumentMatchesLayers(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	last := len(layers)
	for _, m := range regexp.MustCompile(`(?m)^((?:internal|cmd)/\S+)  +\S`).FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		at := slices.IndexFunc(layers, func(packages []string) bool { return slices.Contains(packages, name) })
		switch {
		case at < 0:
			t.Errorf("docs/architecture.md lists %s, which is in no layer", name)
		case at > last:
			t.Errorf("docs/architecture.md lists %s below a package of a lower layer", name)
		default:
			last = at
		}
		listed[name] = true
	}
	for _, packages := range layers {
		for _, name := range packages {
			if !listed[name] && name != "internal/testkit/allow" {
				t.Errorf("docs/architecture.md does not list %s", name)
			}
		}
	}
}

// Packages have names of the domain. The names below say nothing about a package's content.
func TestPackagesHaveNamesOfTheField(t *testing.T) {
	for dir := range tree(t) {
		if slices.Contains([]string{"utils", "util", "common", "helpers", "models", "service", "services", "types", "misc"},
			path.Base(dir)) {
			t.Errorf("%s: what does it own? name it after that", dir)
		}
	}
}

// file is one parsed Go file.
type file struct {
	name string // path from the root of the repository, with slashes
	test bool
	ast  *ast.File
	set  *token.FileSet
}

func (f file) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.name, f.set.Position(n.Pos()).Line)
}

// imports returns the name under which f imports a package, or "".
func (f file) imports(name string) string {
	for _, spec := range f.ast.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p == name {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(name)
		}
	}
	return ""
}

// uses calls report for each use of one of the names of a package.
func (f file) uses(pkg string, names []string, report func(at, what string)) {
	local := f.imports(pkg)
	if local == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(names, sel.Sel.Name) {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
			report(f.at(n), local+"."+sel.Sel.Name)
		}
		return true
	})
}

// tree returns every Go file by directory, parsed once.
func tree(t *testing.T) map[string][]file {
	t.Helper()
	dirs, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

var parsed = sync.OnceValues(func() (map[string][]file, error) {
	dirs := map[string][]file{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") ||
				base == "testdata" || base == "node_modules" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		dir := path.Dir(name)
		dirs[dir] = append(dirs[dir], file{name: name, test: strings.HasSuffix(name, "_test.go"), ast: parsed, set: set})
		return nil
	})
	return dirs, err
})

// eachCode calls visit for each file of the service, without tests and packages that only support tests.
func eachCode(t *testing.T, visit func(file)) {
	t.Helper()
	dirs := tree(t)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		for _, f := range dirs[dir] {
			if !f.test && (!testSupport(dir) || dir == "internal/db/dbtest") {
				visit(f)
			}
		}
	}
}

// allowed reports whether a list has an entry for a file or for a package above it, and marks the entry as used.
func allowed(name string, list map[string]string, used map[string]bool) bool {
	for key := name; key != "."; key = path.Dir(key) {
		if list[key] != "" {
			used[key] = true
			return true
		}
	}
	return false
}

// unused reports each entry of a list that was not used.
func unused(t *testing.T, name string, list map[string]string, used map[string]bool) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if !used[key] {
			t.Errorf("%s lists %q, which nothing needs any more", name, key)
		}
	}
}

// layer returns the layer of a package: its own, or its nearest parent's.
func layer(dir string) (int, bool) {
	for i, packages := range layers {
		if slices.Contains(packages, base(dir)) {
			return i, true
		}
	}
	return 0, false
}

// base returns the package in layers that a package belongs to: itself or a package above it.
func base(dir string) string {
	for d := dir; d != "."; d = path.Dir(d) {
		for _, packages := range layers {
			if slices.Contains(packages, d) {
				return d
			}
		}
	}
	return dir
}

func top(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// testSupport reports whether a package only serves tests.
func testSupport(dir string) bool {
	return strings.HasSuffix(dir, "test") || strings.HasPrefix(dir, "internal/testkit/")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
