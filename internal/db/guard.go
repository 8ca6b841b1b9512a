package db

import (
	"context"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
)

// The guard confines statements that run for a company to rows of that company, even if a request handler omits the
// condition.
//
// [ForCompany] stores the company in a context. A statement executed with that context must restrict every table
// whose primary key begins with company_id by a condition company_id = $n, with that company as the argument.
// Otherwise the guard rejects the statement. Each statement text is analyzed once and the result is cached.

type scopeKey struct{}

// scope is the set of companies whose rows the statements of a context may reach.
type scope struct {
	company string
	across  string // the reason why statements may reach rows of all companies; "" if they may not
}

// ForCompany returns a context whose statements reach only rows of a company. If companyID is "", they reach no
// company's rows.
func ForCompany(ctx context.Context, companyID string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{company: companyID})
}

// AcrossCompanies returns a context whose statements are not restricted to the company of [ForCompany]. The reason
// names the condition that restricts the statements instead, so that a reader can check it.
func AcrossCompanies(ctx context.Context, reason string) context.Context {
	if reason == "" {
		panic("db: statements across companies need a reason")
	}
	return context.WithValue(ctx, scopeKey{}, scope{across: reason})
}

// guard returns an error unless the statement reaches only rows of the context's company.
func guard(ctx context.Context, query string, args []any) error {
	s, ok := ctx.Value(scopeKey{}).(scope)
	if !ok || s.across != "" {
		return nil
	}
	r := restrictionOf(query)
	if r.open != "" {
		return fmt.Errorf("db: a statement for one company reaches rows of all in %s: %s", r.open, query)
	}
	for _, n := range r.companies {
		if n > len(args) || !onlyCompany(args[n-1], s.company) {
			return fmt.Errorf("db: a statement for one company names another one in $%d: %s", n, query)
		}
	}
	return nil
}

// onlyCompany reports whether an argument is the company's ID, or a list that contains nothing else.
func onlyCompany(arg any, company string) bool {
	if company == "" {
		return false
	}
	switch arg := arg.(type) {
	case string:
		return arg == company
	case []string:
		return !slices.ContainsFunc(arg, func(id string) bool { return id != company })
	}
	return false
}

// guardInsert is like guard, for the rows of [Tx.Insert].
func guardInsert(ctx context.Context, table string, columns []string, rows [][]any) error {
	s, ok := ctx.Value(scopeKey{}).(scope)
	if !ok || s.across != "" || !byCompany()[table] {
		return nil
	}
	at := slices.Index(columns, "company_id")
	for _, row := range rows {
		if at < 0 || !onlyCompany(row[at], s.company) {
			return fmt.Errorf("db: a row of another company is inserted into %s", table)
		}
	}
	return nil
}

var (
	restrictions sync.Map // statement → restriction
	kept         atomic.Int64
)

// mostRestrictions is the maximum number of cached statement texts, which bounds the memory. The program has some
// thousands of them.
const mostRestrictions = 20_000

func restrictionOf(query string) restriction {
	if r, ok := restrictions.Load(query); ok {
		return r.(restriction)
	}
	r := parseRestriction(query)
	if kept.Add(1) > mostRestrictions {
		restrictions.Clear()
		kept.Store(1)
	}
	restrictions.Store(query, r)
	return r
}

var (
	createTable = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \((.*?)\n\);`)
	companyKey  = regexp.MustCompile(`PRIMARY KEY \(company_id\b`)
	companyID   = regexp.MustCompile(`(?m)^\s+company_id\s`)
)

// schemaTables returns the tables whose CREATE TABLE text in the migrations matches.
func schemaTables(matching *regexp.Regexp) map[string]bool {
	tables := map[string]bool{}
	names, _ := fs.Glob(Migrations(), "*.sql") // the pattern is valid
	for _, name := range names {
		text, err := fs.ReadFile(Migrations(), name)
		if err != nil {
			panic(err) // cannot fail: the files are embedded in the program
		}
		for _, m := range createTable.FindAllStringSubmatch(string(text), -1) {
			if matching.MatchString(m[2]) {
				tables[m[1]] = true
			}
		}
	}
	return tables
}

var (
	// byCompany are the tables that the guard protects: their primary key begins with company_id.
	byCompany = sync.OnceValue(func() map[string]bool { return schemaTables(companyKey) })
	// withCompany are all tables with a column company_id.
	withCompany = sync.OnceValue(func() map[string]bool { return schemaTables(companyID) })
)
