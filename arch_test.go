// Package stipend_test holds the rules about the tree itself. They are tests, so they are true.
//
// A rule that must be broken is broken here, in a list, with the reason beside it. A line in a list that nothing needs
// any more fails too, so the lists stay as short as the truth.
package stipend_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stipend/stipend/internal/db"
)

const module = "github.com/stipend/stipend"

// floors are the packages of the house from the ground up. A package imports what stands on lower floors, never what
// stands above. A package in a subdirectory lives on its parent's floor unless it is listed.
var floors = [][]string{
	{"internal/apierr", "internal/testkit"},
	{"internal/money", "internal/ratelimit"},
	{"internal/db"},
	{"internal/testkit/allow", "internal/job", "internal/ledger", "internal/requestlog", "internal/identity"},
	{"internal/mail", "internal/auth/session"},
	{"internal/auth"},
	{"internal/webhook", "internal/chain", "internal/lightning", "internal/rates", "internal/rail", "internal/screening"},
	{"internal/oauth", "internal/treasury"},
	{"internal/receivable/quote", "internal/payee", "internal/payee/destination", "internal/invoice/payer", "internal/receivable/deposit", "internal/payout", "internal/payroll", "internal/invoice", "internal/wallet", "internal/virtualaccount"},
	{"internal/kyc", "internal/bankreceipt"},
	{"internal/invoice/vendorbill", "internal/withdrawal"},
	{"internal/claim"},
	{"internal/backoffice"},
	{"internal/httpapi", "internal/web"},
	{"internal/app"},
	{"cmd/stipend"},
}

// outside are packages that see the service as a stranger does: no floor, and nobody imports them.
var outside = []string{"bench", "docs", "sdk", "tools"}

// sideways are the imports between packages of one floor. Each one makes two packages a little more like one.
var sideways = map[string]string{
	"internal/payroll → internal/receivable/quote":            "a pay run asks for its price and accepts it in its own transaction",
	"internal/payroll → internal/payee":                       "a pay run pays people: it reads who they are when it is planned",
	"internal/payroll → internal/payee/destination":           "a pay run copies each payee's destinations when it is planned",
	"internal/payroll → internal/wallet":                      "a pay run that names a wallet is funded in its currency",
	"internal/payroll → internal/invoice":                     "a pay run takes the invoices that it pays and tells them how it went; they know it by id only",
	"internal/invoice → internal/invoice/payer":               "an invoice is written to a payer, who cannot be deleted while it is being paid",
	"internal/payroll → internal/receivable/deposit":          "a pay run counts the money that came in for it",
	"internal/payee/destination → internal/payee":             "who owns a destination, and may change it, is a payee's matter",
	"internal/receivable/deposit → internal/receivable/quote": "a deposit is worth what the quote in force said when it was first seen",
	"internal/rail → internal/chain":                          "the on-chain rail spends the wallet's coins",
	"internal/payroll → internal/payout":                      "a pay run that is released hands its outputs over, and reads how they ended",
}

// Who may do what most packages must not. The keys are packages, with what is below them, or single files.
var (
	clockAndChance = map[string]string{
		"internal/db":  "makes the instant and the ids of a transaction",
		"internal/app": "starts the process: configuration, keys, loops",
		"internal/job": "waits for what is due",

		"bench":                        "measures time, which is the machine's and not a transaction's",
		"internal/identity/token.go":   "makes secrets, which must come from the system's randomness",
		"internal/identity/subject.go": "makes keys, which must come from the system's randomness",
		"internal/rail/bank/sftp.go":   "measures how long a bank's server takes",
		"sdk":                          "runs at the caller: makes idempotency keys and checks the age of webhook deliveries",
		"docs/samples":                 "shows a receiver, which compares a delivery's time with its own clock",
		"internal/lightning":           "draws preimages, which must come from the system's randomness",
		"internal/webhook/delivery":    "measures receivers, spreads attempts, and signs for clocks that are not the sandbox's",
	}
	environment = map[string]string{
		"bench":              "hands its own to the program that it builds",
		"internal/db/dbtest": "finds the PostgreSQL server to test on",
	}
	sqlText = map[string]string{
		"internal/db": "the door itself, and its migrations",
		"bench":       "measures the same rows written by bare SQL",
	}
	servers = map[string]string{
		"internal/httpapi": "the JSON face",
		"internal/app":     "listens, and stops in order",
		"bench":            "its floor is a bare server",
	}
)

// floats are the files that need one, for what is no money. Everywhere else an amount could pass through it unseen.
var floats = map[string]string{
	"bench":                             "rates, times and shares",
	"internal/web/wallet_files.go":      "widths on paper",
	"internal/httpapi/auth.go":          "how many requests a second",
	"internal/httpapi/http.go":          "how many requests a second",
	"internal/httpapi/oauth.go":         "how many requests a second",
	"internal/app/app.go":               "how many requests a second",
	"internal/app/metrics.go":           "what Prometheus counts in",
	"internal/ratelimit":                "how many requests a second",
	"internal/web/chart.go":             "points of a picture",
	"internal/web/pdf.go":               "widths on paper",
	"internal/web/settings_requests.go": "milliseconds, to be read",
}

// skips are the tests that may skip themselves.
var skips = map[string]string{
	"internal/db/dbtest/dbtest_test.go": "with a server that somebody else runs there is none to start",
}

// reference are the tables and indexes whose first key is not the company: they are shared by all companies, small or
// owned by the process, and copied to every node where rows are spread by company.
var reference = map[string]string{
	"settings":    "the process's own: the sandbox's clock, the network that the data belongs to",
	"leases":      "the process's own: which process runs a periodic job",
	"idempotency": "keyed by the credential that sent the key; an answer is replayed before the company is known",
	"jobs":        "its key starts with the company, but workers ask what is due, whoever's it is",

	"users":               "one person may work for several companies, or for none",
	"authorization_codes": "found by the digest of the code that an app exchanges; the row says which company",
	"api_keys":            "found by the digest of the secret that a request carries; the row says which company",
	"sessions":            "found by the digest of the secret in a cookie; a person signs in, whomever they act for",
	"mail_counts":         "counts mails to an address, whoever has them written",
	"sign_in_attempts":    "counts tries of passwords and codes, before anybody is known",
	"second_factors":      "a person's own, whomever they act for",
	"account_links":       "found by the digest of the token in a mail; there is no account yet, or it is a person's",
	"member_invitations":  "its key starts with the company, but the link in a mail carries a token only",
	"passkeys":            "a person's own, whomever they act for",
	"passkey_challenges":  "found by its digest; who signs in is not known yet",
	"recovery_codes":      "a person's own, whomever they act for",
	"access_tokens":       "found by the digest of the secret that a request carries; the row says which company",
	"members":             "its key starts with the company, but sign-in asks which companies a person belongs to",
	"apps":                "its key starts with the company, but a token request names the client only",
	"funding_accounts":    "a user's or a company's; a bank says on which number money came, not whose it is",
	"funding_receipts":    "a user's or a company's, like the account",
	"invoices":            "a user's, whom several companies may pay; a pay run finds the invoice that it pays by its id",
	"recipients":          "its key starts with the company, but a payee asks who pays them",
	"invitations":         "its key starts with the company, but the link in a mail carries a token only",
	"distribution_owners": "destinations belong to a person or recipient, whoever pays them",
	"distributions":       "destinations belong to a person or recipient, whoever pays them",

	"distribution_changes": "destinations belong to a person or recipient, whoever pays them",

	"subjects":        "a person's documents are theirs, whoever pays them",
	"documents":       "a person's documents are theirs, whoever pays them",
	"document_chunks": "a person's documents are theirs, whoever pays them",
	"tax_ids":         "a person's documents are theirs, whoever pays them",
	"verifications":   "a person is verified once, whoever pays them",

	"operators":         "the house's own people, who belong to no company",
	"operator_sessions": "found by the digest of the secret in a cookie; an operator acts for the house",
	"operator_acts":     "what operators did, whoever's it was about",
	"operator_requests": "what operators ask each other, whoever's it is about",
	"reconciliations":   "the house's own: what was compared, over all companies",

	"event_positions": "holds no row: PostgreSQL counts the positions of all events with its sequence",
	"event_marks":     "the worker's own: how far it has taken note of all events",

	"provider_callbacks": "a provider names its own cases, not companies",

	"lightning_invoices": "its key starts with the company, but the node names what was paid by its hash, whoever's it is",
	"lightning_cursors":  "a node has no companies",

	"chain_cursors":   "a chain has no companies",
	"chain_blocks":    "a chain has no companies",
	"chain_pools":     "one wallet's next unused index",
	"chain_addresses": "the watcher asks whose an address is; the answer is the company",
	"chain_outputs":   "the wallet is one for all companies: an output is found by its outpoint and chosen by its state",
	"chain_txs":       "found by its id, when a block or the mempool shows it",
	"chain_spends":    "a chain has no companies",
	"sim_blocks":      "the simulated chain, sandbox only",
	"sim_block_txs":   "the simulated chain, sandbox only",
	"sim_txs":         "the simulated chain, sandbox only",
	"sim_outputs":     "the simulated chain, sandbox only",

	"payout_batches":   "its key starts with the company, but a nonce belongs to an account, whoever it pays",
	"payout_nonces":    "an account of the house's wallet has one next nonce",
	"sim_evm_blocks":   "the simulated networks, sandbox only",
	"sim_evm_txs":      "the simulated networks, sandbox only",
	"sim_evm_accounts": "the simulated networks, sandbox only",
	"sim_evm_balances": "the simulated networks, sandbox only",

	"events":            "its keys start with the company, but the worker asks what is new, and pruning what is old, whoever's it is",
	"webhook_endpoints": "its key starts with the company, but workers ask whose queue is due",

	"bank_files":   "its key starts with the company, but a bank's answer names the number of a file, whoever's it is",
	"bank_answers": "one file of a bank speaks of payments of many companies",

	"claims": "its key starts with the company, but the checkout page knows a claim's id only",
	"quotes": "its keys start with the company, but expiry asks which have ended, whoever's they are",
	"rates":  "a market price is the same for everybody",

	"payers":          "a user's or a company's; the operator names one by its id",
	"transfers":       "the bank says what came in, not for whom",
	"transfer_names":  "the bank says what came in, not for whom",
	"bank_statements": "what a bank says of an account of the house, which is no company's",
	"bank_entries":    "what a bank says of an account of the house, which is no company's",
	"payrolls":        "its keys start with the company, but who transfers money names a pay run by its id only",

	"ledger_house":       "what the house owns, which is no company's",
	"ledger_house_moves": "its key starts with the company, but what the house owns is added up over all of them",
	"fx_limits":          "the operator's own, for all companies",
	"fx_bookings":        "what the operator did at a bank or an exchange",
}

func TestPackagesAreDocumented(t *testing.T) {
	for dir, files := range house(t) {
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
		want := regexp.MustCompile(`^(Package|Command|Program) ` + regexp.QuoteMeta(name) + `\b|^` + regexp.QuoteMeta(strings.ToUpper(name[:1])+name[1:]) + `\b`)
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
	for dir, files := range house(t) {
		if dir == "." || slices.Contains(outside, top(dir)) || testSupport(dir) {
			continue
		}
		from, ok := floor(dir)
		if !ok {
			t.Errorf("%s stands on no floor: give it one in arch_test.go", dir)
			continue
		}
		for _, f := range files {
			if f.test { // a test may stand on the roof
				continue
			}
			for _, spec := range f.ast.Imports {
				name, _ := strconv.Unquote(spec.Path.Value)
				target, ours := strings.CutPrefix(name, module+"/")
				if !ours {
					continue
				}
				to, ok := floor(target)
				edge := base(dir) + " → " + base(target)
				switch {
				case !ok:
					t.Errorf("%s imports %s, which stands on no floor", f.name, target)
				case strings.HasSuffix(target, "test"):
					t.Errorf("%s imports %s, which is for tests", f.name, target)
				case to < from, base(dir) == base(target):
				case to == from && sideways[edge] != "":
					used[edge] = true
				case to == from:
					t.Errorf("%s imports %s on its own floor; if that must be, list %q with its reason", f.name, target, edge)
				default:
					t.Errorf("%s imports %s, which stands above it", f.name, target)
				}
			}
		}
	}
	unused(t, "sideways", sideways, used)
}

func TestTheClockHasOneDoor(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		if allowed(f.name, clockAndChance, used) {
			return
		}
		for _, name := range []string{"math/rand", "math/rand/v2", "crypto/rand"} {
			if f.imports(name) != "" {
				t.Errorf("%s imports %s; ids come from tx.NewID, and what else needs chance is listed in arch_test.go", f.name, name)
			}
		}
		f.uses("time", []string{"Now", "Since", "Until"}, func(at, what string) {
			t.Errorf("%s: %s; the instant of a transaction is tx.Now", at, what)
		})
	})
	unused(t, "clockAndChance", clockAndChance, used)
}

func TestTheEnvironmentHasOneDoor(t *testing.T) {
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

// statement is how SQL starts in this house: in capitals.
var statement = regexp.MustCompile(`^\s*(SELECT\s|INSERT INTO\s|UPDATE\s+\S+\s+SET\b|DELETE FROM\s|WITH\s+\w+.*\sAS\s*\(|CREATE\s+(TABLE|INDEX|UNIQUE)|DROP\s|ALTER\s)`)

func TestSQLIsInTheStores(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		if path.Base(f.name) == "store.go" {
			return
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			if s, err := strconv.Unquote(text.Value); err == nil && statement.MatchString(s) && !allowed(f.name, sqlText, used) {
				t.Errorf("%s: SQL outside a store.go: %q", f.at(n), firstLine(s))
			}
			return true
		})
		for _, name := range []string{"database/sql", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool"} {
			if f.imports(name) != "" && !allowed(f.name, sqlText, used) {
				t.Errorf("%s imports %s; the door to the database is db", f.name, name)
			}
		}
	})
	unused(t, "sqlText", sqlText, used)
}

func TestServersAreFaces(t *testing.T) {
	used := map[string]bool{}
	eachCode(t, func(f file) {
		f.uses("net/http", []string{"Server", "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"}, func(at, what string) {
			if !allowed(f.name, servers, used) {
				t.Errorf("%s: %s; HTTP is served by the faces only", at, what)
			}
		})
	})
	unused(t, "servers", servers, used)
}

func TestMoneyKnowsNoFloat(t *testing.T) {
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

// A test that skips itself looks like one that passed, and one that sleeps is slow on a quick machine and wrong on a slow one.
func TestTestsNeitherSkipNorSleep(t *testing.T) {
	used := map[string]bool{}
	for _, files := range house(t) {
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

// A package is a word of the field. These are words for whatever found no place.
func TestPackagesHaveNamesOfTheField(t *testing.T) {
	for dir := range house(t) {
		if slices.Contains([]string{"utils", "util", "common", "helpers", "models", "service", "services", "types", "misc"}, path.Base(dir)) {
			t.Errorf("%s: what does it own? name it after that", dir)
		}
	}
}

var (
	comment     = regexp.MustCompile(`--[^\n]*`)
	createTable = regexp.MustCompile(`(?is)CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s*\((.*?)\)\s*;`)
	createIndex = regexp.MustCompile(`(?is)CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s+ON\s+(\w+)\s*\(\s*(\w+)`)
	tableKey    = regexp.MustCompile(`(?is)\b(PRIMARY\s+KEY|UNIQUE|FOREIGN\s+KEY)\s*\(\s*(\w+)`)
	columnKey   = regexp.MustCompile(`(?im)^\s*(\w+)\s[^,(]*\b(PRIMARY\s+KEY|UNIQUE)\b`)
)

// onlyAdds are the statements that a program which does not know of them overlooks.
var onlyAdds = regexp.MustCompile(`(?is)^(CREATE\s+TABLE\s|CREATE\s+INDEX\s|ALTER\s+TABLE\s+\w+\s+ADD\s+COLUMN\s+\w+\s+\w+(\s+NOT\s+NULL)?\s+DEFAULT\s+\S+$)`)

// Programs of the version before go on while a new one migrates. The migrations up to 0345 are older than this rule.
func TestMigrationsOnlyAddOrAreAlone(t *testing.T) {
	files, err := fs.Glob(db.Migrations(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, name := range files {
		data, err := fs.ReadFile(db.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), db.Alone) {
			held++
			continue
		}
		if name < "0346" {
			continue
		}
		for statement := range strings.SplitSeq(comment.ReplaceAllString(string(data), ""), ";") {
			if s := strings.TrimSpace(statement); s != "" && !onlyAdds.MatchString(s) {
				t.Errorf("%s: older programs may not live with %q; have it only add, or give the file the line %s", name, s, db.Alone)
			}
		}
	}
	if held == 0 {
		t.Error("no migration is alone; is it another line by now?")
	}
}

// Rows of a company start with the company, in every key and index: so one schema serves one file, one server, and a
// PostgreSQL whose rows are spread over machines by company.
func TestTheCompanyComesFirst(t *testing.T) {
	migrations := db.Migrations()
	names, err := fs.Glob(migrations, "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	used := map[string]bool{}
	numbers := map[string]string{}
	check := func(where, table, what, column string) {
		switch {
		case column == "company_id":
		case reference[table] != "":
			used[table] = true
		default:
			t.Errorf("%s: %s of table %s starts with %s, want company_id (or list the table, with its reason, under reference)", where, what, table, column)
		}
	}
	for _, name := range names {
		number, _, ok := strings.Cut(name, "_")
		if !ok || len(number) != 4 {
			t.Errorf("%s: want NNNN_name.sql", name)
		}
		if numbers[number] != "" {
			t.Errorf("%s and %s share a number", name, numbers[number])
		}
		numbers[number] = name
		data, err := fs.ReadFile(migrations, name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "+goose Down") {
			t.Errorf("%s goes down; migrations go forward only", name)
		}
		text := comment.ReplaceAllString(string(data), "")
		for _, m := range createTable.FindAllStringSubmatch(text, -1) {
			table, body := m[1], m[2]
			keys := 0
			for _, key := range tableKey.FindAllStringSubmatch(body, -1) {
				check(name, table, strings.ToLower(key[1]), key[2])
				keys++
			}
			for _, key := range columnKey.FindAllStringSubmatch(body, -1) {
				check(name, table, strings.ToLower(key[2]), key[1])
				keys++
			}
			if keys == 0 {
				t.Errorf("%s: table %s has no key", name, table)
			}
		}
		for _, m := range createIndex.FindAllStringSubmatch(text, -1) {
			check(name, m[2], "index "+m[1], m[3])
		}
	}
	unused(t, "reference", reference, used)
}

// file is one Go file of the house, parsed.
type file struct {
	name string // from the root, with slashes
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

// uses reports each mention of a package's names, called or passed on.
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

// house is every Go file, parsed once, by directory.
func house(t *testing.T) map[string][]file {
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
			if base := d.Name(); name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "node_modules" || name == "bin") {
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

// eachCode visits the files that are part of the service: no tests, and no packages that only serve tests.
func eachCode(t *testing.T, visit func(file)) {
	t.Helper()
	dirs := house(t)
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		for _, f := range dirs[dir] {
			if !f.test && (!testSupport(dir) || dir == "internal/db/dbtest") {
				visit(f)
			}
		}
	}
}

// allowed says whether a file is listed, itself or by a package above it, and notes what listed it.
func allowed(name string, list map[string]string, used map[string]bool) bool {
	for key := name; key != "."; key = path.Dir(key) {
		if list[key] != "" {
			used[key] = true
			return true
		}
	}
	return false
}

// unused fails the lines of a list that nothing needed.
func unused(t *testing.T, name string, list map[string]string, used map[string]bool) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(list)) {
		if !used[key] {
			t.Errorf("%s lists %q, which nothing needs any more", name, key)
		}
	}
}

// floor finds the floor of a package: its own, or its nearest parent's.
func floor(dir string) (int, bool) {
	for i, packages := range floors {
		if slices.Contains(packages, base(dir)) {
			return i, true
		}
	}
	return 0, false
}

// base is the listed package that a package belongs to.
func base(dir string) string {
	for d := dir; d != "."; d = path.Dir(d) {
		for _, packages := range floors {
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
