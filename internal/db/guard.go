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

// The guard of rows: statements that run for a company reach only rows of that company, whatever a handler forgets.
//
// A context made by ForCompany names the company. A statement with that context must restrict every table whose
// primary key begins with company_id to it, by company_id = $n, with the company as that argument. Otherwise it is not
// executed. What a text restricts is determined once for each text.

type scopeKey struct{}

// scope is what statements of a context may reach.
type scope struct {
	company string
	across  string // reason for statements across companies
}

// ForCompany returns a context whose statements reach only rows of a company. With the company "" they reach no rows of
// companies.
func ForCompany(ctx context.Context, companyID string) context.Context {
	return context.WithValue(ctx, scopeKey{}, scope{company: companyID})
}

// AcrossCompanies returns a context whose statements are not restricted to the company of [ForCompany], for a reason
// that a reader of the code can check: what the statement is restricted to instead.
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

// onlyCompany reports whether an argument is the company, or a list of nothing else.
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

// guardInsert is guard for rows of Tx.Insert.
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

// mostRestrictions bounds the memory for texts. The program has some thousands of them.
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

// schemaTables returns the tables whose text in the schema matches.
func schemaTables(matching *regexp.Regexp) map[string]bool {
	tables := map[string]bool{}
	names, _ := fs.Glob(Migrations(), "*.sql") // the pattern is valid
	for _, name := range names {
		text, err := fs.ReadFile(Migrations(), name)
		if err != nil {
			panic(err) // the files are part of the program
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
	// byCompany are the guarded tables: their primary key begins with company_id.
	byCompany = sync.OnceValue(func() map[string]bool { return schemaTables(companyKey) })
	// withCompany are all tables with a column company_id.
	withCompany = sync.OnceValue(func() map[string]bool { return schemaTables(companyID) })
)
