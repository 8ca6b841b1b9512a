package payee

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/country"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
)

// Page sizes.
const (
	DefaultPerPage = 20
	MaxPerPage     = 100 // a greater PerPage is reduced to this value
)

// checkPage applies the default and the maximum page size. It adds negative values to the problems.
func checkPage(p db.Page, problems *apierr.List) db.Page {
	for _, w := range []struct {
		name  string
		value int
	}{{"page", p.Number}, {"per_page", p.PerPage}} {
		if w.value < 0 {
			queryProblem(problems, w.name, "This is a whole number from 1.")
		}
	}
	p.Number, p.PerPage = max(p.Number, 1), min(cmpOr(p.PerPage, DefaultPerPage), MaxPerPage)
	return p
}

func cmpOr(v, otherwise int) int {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Slice is one page of a list, together with the exact number of matches on all pages.
type Slice[T any] struct {
	Items []T
	Total int
	Page  db.Page // the requested page, after the default and the maximum were applied
}

// ListParams are the filters of a list of recipients. Empty fields do not filter.
type ListParams struct {
	CompanyID string // "" means the principal's company
	Search    string // part of the name or email address; case does not matter
	Role      string
	Type      string
	Status    string
	Country   string
	Metadata  map[string]string
	SortBy    string // name, email or created
	SortDir   string // asc or desc; ignored if SortBy is "", which lists the newest first
	Page      db.Page
}

func queryProblem(problems *apierr.List, name, message string) {
	problems.AddField(apierr.Field{Code: "invalid_parameter", In: "query", Pointer: name, Message: message})
}

func oneOf(problems *apierr.List, name, value string, allowed ...string) {
	if value != "" && !slices.Contains(allowed, value) {
		queryProblem(problems, name, "This takes one of: "+strings.Join(allowed, ", ")+".")
	}
}

// key returns a text in the normalized form in which texts are searched, sorted and compared.
func key(text string) string { return strings.ToLower(norm.NFC.String(text)) }

// List returns a page of the recipients of the principal's company: workers with and without a login, and vendors.
func List(ctx context.Context, tx *db.Tx, by identity.Principal, p ListParams) (Slice[Recipient], error) {
	q, err := p.query(by)
	if err != nil {
		return Slice[Recipient]{}, err
	}
	ids, total, err := find(ctx, tx, q)
	if err != nil {
		return Slice[Recipient]{}, err
	}
	items, err := selectRecipients(ctx, tx, q.companyID, ids)
	return Slice[Recipient]{items, total, q.page}, err
}

// query checks the parameters and returns all problems at once.
func (p ListParams) query(by identity.Principal) (query, error) {
	var problems apierr.List
	oneOf(&problems, "role", p.Role, Contractor, Employee, Vendor)
	oneOf(&problems, "recipient_type", p.Type, TypeUser, TypeCompany)
	oneOf(&problems, "status", p.Status, Active, Pending, Inactive)
	oneOf(&problems, "sort_by", p.SortBy, "name", "email", "created")
	oneOf(&problems, "sort_by_dir", p.SortDir, "asc", "desc")
	p.Country = strings.ToUpper(p.Country)
	if p.Country != "" && !country.Exists(p.Country) {
		queryProblem(&problems, "country", "This takes a country code of two letters, such as DE.")
	}
	p.Search = strings.TrimSpace(p.Search)
	if utf8.RuneCountInString(p.Search) > 100 || !utf8.ValidString(p.Search) || strings.Contains(p.Search, "\x00") {
		queryProblem(&problems, "search", "This takes text of at most 100 characters.")
	}
	page := checkPage(p.Page, &problems)
	if err := problems.Err(); err != nil {
		return query{}, err
	}
	company, err := by.Company(p.CompanyID)
	if err != nil {
		return query{}, err
	}
	return query{
		companyID: company, search: key(p.Search), country: p.Country, role: p.Role, kind: p.Type, status: p.Status,
		metadata: p.Metadata,
		page:     page,
		sortBy:   sortColumns[p.SortBy], descending: p.SortDir == "desc" || p.SortBy == "" && p.SortDir == "",
	}, nil
}

// sortColumns are the columns by which a client may sort.
var sortColumns = map[string]string{"": "created_at", "created": "created_at", "name": "name_key", "email": "email_key"}

// Worker is a worker with a login, in the form of the list of workers.
type Worker struct {
	UserID, Email, FirstName, LastName string
	OnboardingComplete                 bool // the profile is complete and the allocations total 100
	HasDistributions                   bool
}

// WorkersParams are the filters of a list of workers. Empty fields do not filter.
type WorkersParams struct {
	CompanyID string // "" means the principal's company
	UserID    string
	Email     string // complete email address; case does not matter
	Page      db.Page
}

// Workers returns a page of the principal's company's workers with a login, oldest first.
func Workers(ctx context.Context, tx *db.Tx, by identity.Principal, p WorkersParams) (Slice[Worker], error) {
	var problems apierr.List
	p.Page = checkPage(p.Page, &problems)
	if err := problems.Err(); err != nil {
		return Slice[Worker]{}, err
	}
	company, err := by.Company(p.CompanyID)
	if err != nil {
		return Slice[Worker]{}, err
	}
	p.CompanyID = company
	ids, total, err := findWorkers(ctx, tx, p)
	if err != nil {
		return Slice[Worker]{}, err
	}
	items, err := selectWorkers(ctx, tx, company, ids)
	return Slice[Worker]{items, total, p.Page}, err
}
