package payee

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/metadata"
)

// MaxImport is the maximum number of rows of one import.
const MaxImport = 10_000

// Outcomes of a row of an import.
const (
	ImportCreated  = "created"
	ImportExisting = "existing" // a recipient with this external ID already exists, and stays unchanged
	ImportValid    = "valid"    // in a dry run: the recipient would be created
	ImportFailed   = "failed"
)

// Imported is the outcome of one row. Rows are numbered as in a spreadsheet: the header is row 1.
type Imported struct {
	Row         int
	Status      string
	RecipientID string         // ID of the created or existing recipient
	Problems    []apierr.Field // problems of a failed row; Pointer is the name of the column
}

// column maps a column of the file to a member of CreateParams.
type column struct {
	name string
	to   func(*CreateParams) *string
}

// importColumns are the columns of an import, in any order.
var importColumns = []column{
	{"external_id", func(p *CreateParams) *string { return &p.ExternalID }},
	{"recipient_type", func(p *CreateParams) *string { return &p.Type }},
	{"role", func(p *CreateParams) *string { return &p.Role }},
	{"name", func(p *CreateParams) *string { return &p.Name }},
	{"first_name", func(p *CreateParams) *string { return &p.FirstName }},
	{"last_name", func(p *CreateParams) *string { return &p.LastName }},
	{"email", func(p *CreateParams) *string { return &p.Email }},
	{"country", func(p *CreateParams) *string { return &p.Country }},
	{"department", func(p *CreateParams) *string { return &p.Department }},
	{"vendor_type", func(p *CreateParams) *string { return &p.VendorType }},
	{"phone_number", func(p *CreateParams) *string { return &p.PhoneNumber }},
	{"phone_country", func(p *CreateParams) *string { return &p.PhoneCountry }},
	{"date_of_birth", func(p *CreateParams) *string { return &p.DateOfBirth }},
	{"street_address", func(p *CreateParams) *string { return &p.StreetAddress }},
	{"street_address_2", func(p *CreateParams) *string { return &p.StreetAddress2 }},
	{"city", func(p *CreateParams) *string { return &p.City }},
	{"state", func(p *CreateParams) *string { return &p.State }},
	{"zip", func(p *CreateParams) *string { return &p.Zip }},
}

// ImportColumns returns the names of the columns of an import.
func ImportColumns() (names []string) {
	for _, c := range importColumns {
		names = append(names, c.name)
	}
	return names
}

// shown are columns of an export that an import ignores, so that an exported file can be imported without changes.
var shown = []string{"id", "status", "created", "metadata"}

func aboutFile(code, message string) error {
	var problems apierr.List
	problems.Add(code, "/csv", message)
	return problems.Err()
}

// Import creates recipients from a CSV file with a header, each by the rules of [Create]. It creates the valid rows
// even if others are invalid, all in one transaction. It skips and reports a row whose external ID belongs to an
// existing recipient, so importing the same file again creates no duplicates. A dry run creates nothing.
//
// Import returns an error for the whole file, with a problem at /csv, if the file has no header, unknown or repeated
// columns, more than MaxImport rows, or unbalanced quotes.
func Import(ctx context.Context, tx *db.Tx, s *identity.Sealer, by identity.Principal, companyID, file string,
	dryRun bool) ([]Imported, error) {
	if err := mayChange(ctx, tx, by, companyID); err != nil {
		return nil, err
	}
	company, err := by.Company(companyID)
	if err != nil {
		return nil, err
	}
	r, header, err := readHeader(file)
	if err != nil {
		return nil, err
	}
	var rows []Imported
	var people []importing
	first := map[string]int{} // row numbers by external ID
	reported := 0             // problems found so far
	for number := 2; ; number++ {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, aboutFile("invalid_parameter", fmt.Sprintf("Row %d is not valid CSV: look for quotes that do not match.",
				number))
		}
		if len(rows) == MaxImport {
			return nil, aboutFile("invalid_parameter", fmt.Sprintf("A file has at most %d rows. Split it.", MaxImport))
		}
		row, person := importRow(record, header, tx.Now())
		row.Row = number
		if id := person.r.ExternalID; row.Status == ImportValid && id != "" {
			if before, twice := first[id]; twice {
				row.Status = ImportFailed
				// The row's result contains the problem; the import continues.
				row.Problems = []apierr.Field{{Code: ErrExternalID.Code, Pointer: "external_id",
					Message: fmt.Sprintf("Row %d has the same external_id.", before)}}
			} else {
				first[id] = number
			}
		}
		// The number of problems is limited, so that the response to a file with many mistakes is not much larger than the
		// file.
		row.Problems = row.Problems[:min(len(row.Problems), max(1, mostProblems-reported))]
		reported += len(row.Problems)
		person.at = len(rows)
		rows = append(rows, row)
		if row.Status == ImportValid {
			people = append(people, person)
		}
	}
	existing, err := externalIDs(ctx, tx, company, people)
	if err != nil {
		return nil, err
	}
	people = slices.DeleteFunc(people, func(p importing) bool {
		id, exists := existing[p.r.ExternalID]
		if exists {
			rows[p.at].Status, rows[p.at].RecipientID = ImportExisting, id
		}
		return exists
	})
	if dryRun {
		return rows, nil
	}
	for i := range people {
		p := &people[i]
		p.r.CompanyID, p.r.ID, p.r.RelationshipID = company, tx.NewID("rec"), tx.NewID("rel")
		p.r.Status, p.r.Version, p.r.Created = Pending, 1, tx.Now()
		if p.details, err = p.profile.Details.Seal(s, detailsOf(p.r)); err != nil {
			return nil, err
		}
		rows[p.at].Status, rows[p.at].RecipientID = ImportCreated, p.r.ID
		db.History(tx, p.r.CompanyID, p.r.ID, p.r.Version, "", p.r.Status, "imported")
		if err := emitCreated(tx, p.r); err != nil {
			return nil, err
		}
	}
	return rows, insertMany(ctx, tx, people)
}

// mostProblems is the number of problems that an import reports in full. After that, it reports only the first
// problem of each row.
const mostProblems = 1000

// importing is a valid row for which a recipient will be created.
type importing struct {
	at      int // index of the row in the file
	r       Recipient
	profile identity.Profile
	details string // encrypted personal details
}

// readHeader begins to read a CSV file and returns its columns. It accepts a byte order mark, and semicolons as
// separators, which spreadsheets write in locales with decimal commas.
func readHeader(file string) (*csv.Reader, []column, error) {
	file = strings.TrimPrefix(file, "\ufeff")
	line, _, _ := strings.Cut(file, "\n")
	r := csv.NewReader(strings.NewReader(file))
	r.FieldsPerRecord, r.ReuseRecord = -1, true
	if !strings.Contains(line, ",") && strings.Contains(line, ";") {
		r.Comma = ';'
	}
	record, err := r.Read()
	if err != nil {
		return nil, nil, aboutFile("invalid_parameter",
			"The file begins with a row of column names, such as external_id,first_name,last_name,country.")
	}
	header := make([]column, len(record))
	var problems apierr.List
	seen := map[string]bool{}
	for i, name := range record {
		name = strings.ToLower(strings.TrimSpace(name))
		known := slices.IndexFunc(importColumns, func(c column) bool { return c.name == name })
		switch {
		case seen[name]:
			problems.Add("invalid_parameter", "/csv", fmt.Sprintf("Column %d has the name of an earlier one.", i+1))
		case known >= 0:
			header[i] = importColumns[known]
		case !slices.Contains(shown, name):
			problems.Add("unknown_field", "/csv", fmt.Sprintf("Column %d has a name that is not known. Check its spelling.",
				i+1))
		}
		seen[name] = true
	}
	return r, header, problems.Err()
}

// importRow checks one row by the rules of [Create].
func importRow(record []string, header []column, now time.Time) (row Imported, p importing) {
	var params CreateParams
	if len(record) != len(header) {
		row.Status = ImportFailed
		row.Problems = []apierr.Field{{Code: "invalid_parameter",
			Message: fmt.Sprintf("The row has %d fields, the header %d.", len(record), len(header))}}
		return row, p
	}
	for i, value := range record {
		if header[i].to != nil {
			*header[i].to(&params) = PlainCell(strings.TrimSpace(value))
		}
	}
	var err error
	p.r, p.profile, err = params.check(now)
	f, wrong := apierr.As(err)
	if !wrong {
		row.Status = ImportValid
		return row, p
	}
	row.Status, row.Problems = ImportFailed, f.Fields
	for i := range row.Problems {
		row.Problems[i].Pointer = strings.TrimPrefix(row.Problems[i].Pointer, "/")
	}
	return row, p
}

// formula contains the characters that, at the beginning of a cell, make a spreadsheet evaluate the cell as a
// formula.
const formula = "=+-@\t\r"

// SafeCell returns a cell that a spreadsheet does not evaluate: it prepends an apostrophe to text that would be a
// formula.
func SafeCell(text string) string {
	if text != "" && strings.Contains(formula, text[:1]) {
		return "'" + text
	}
	return text
}

// PlainCell undoes [SafeCell].
func PlainCell(text string) string {
	if len(text) > 1 && text[0] == '\'' && strings.Contains(formula, text[1:2]) {
		return text[1:]
	}
	return text
}

// Export returns a function that writes all recipients that match the filters of a list as CSV. The CSV is safe to
// open in a spreadsheet: cells that would be formulas begin with an apostrophe, which [Import] removes. Invalid
// parameters are reported before anything is written.
func Export(ctx context.Context, tx *db.Tx, by identity.Principal,
	p ListParams) (write func(io.Writer) error, err error) {
	p.Page = db.Page{}
	q, err := p.query(by)
	if err != nil {
		return nil, err
	}
	q.page = db.Page{Number: 1, PerPage: math.MaxInt32}
	return func(w io.Writer) error {
		ids, _, err := find(ctx, tx, q)
		if err != nil {
			return err
		}
		out := csv.NewWriter(w)
		_ = out.Write([]string{"id", "external_id", "recipient_type", "role", "status", "name", "first_name", "last_name",
			"email", "country",
			"department", "vendor_type", "created", "metadata"}) // Flush returns errors
		for ids := range slices.Chunk(ids, 512) {
			found, err := selectRecipients(ctx, tx, q.companyID, ids)
			if err != nil {
				return err
			}
			for _, r := range found {
				cells := []string{r.ID, r.ExternalID, r.Type, r.Role, r.Status, r.Name, r.FirstName, r.LastName, r.Email, r.Country,
					r.Department, r.VendorType, r.Created.Format(time.DateOnly), metadata.Text(r.Metadata)}
				for i := range cells {
					cells[i] = SafeCell(cells[i])
				}
				_ = out.Write(cells)
			}
			if err := out.Error(); err != nil {
				return err
			}
		}
		out.Flush()
		return out.Error()
	}, nil
}
