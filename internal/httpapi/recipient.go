package httpapi

import (
	"context"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee"
)

type (
	recipientCreateInput struct {
		CompanyID string `path:"company_id"`
		Body      recipientCreateBody
	}

	// recipientCreateBody declares only maximum lengths, because package payee validates the fields.
	recipientCreateBody struct {
		ExternalID     string `json:"external_id,omitempty" maxLength:"255"`
		Email          string `json:"email,omitempty" maxLength:"254"`
		FirstName      string `json:"first_name,omitempty" maxLength:"100"`
		LastName       string `json:"last_name,omitempty" maxLength:"100"`
		PhoneNumber    string `json:"phone_number,omitempty" maxLength:"40"`
		PhoneCountry   string `json:"phone_country,omitempty" maxLength:"2" format:"country"`
		DateOfBirth    string `json:"date_of_birth,omitempty" maxLength:"10"`
		StreetAddress  string `json:"street_address,omitempty" maxLength:"200"`
		StreetAddress2 string `json:"street_address_2,omitempty" maxLength:"200"`
		City           string `json:"city,omitempty" maxLength:"100"`
		State          string `json:"state,omitempty" maxLength:"100"`
		Zip            string `json:"zip,omitempty" maxLength:"20"`
		Country        string `json:"country,omitempty" maxLength:"2" format:"country" doc:"Required. 2-letter ISO code."`
		Role           string `json:"role,omitempty" enum:"contractor,employee,vendor"`
		Department     string `json:"department,omitempty" maxLength:"100"`
		VendorType     string `json:"vendor_type,omitempty" maxLength:"100"`
		RecipientType  string `json:"recipient_type,omitempty" enum:"user,company"`
		Name           string `json:"name,omitempty" maxLength:"200"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	recipientCreated struct {
		RecipientID    string `json:"recipient_id"`
		RecipientType  string `json:"recipient_type" enum:"user,company"`
		RelationshipID string `json:"relationship_id"`
		Status         string `json:"status" enum:"pending,active,inactive"`
		Replayed       bool   `json:"idempotency_replayed"`
	}

	// recipientChoice contains the filter and the order of a list of recipients.
	recipientChoice struct {
		Search  string `query:"search" maxLength:"100" doc:"Part of the name or email address."`
		Role    string `query:"role" enum:"contractor,employee,vendor"`
		Type    string `query:"recipient_type" enum:"user,company"`
		Status  string `query:"status" enum:"active,pending,inactive"`
		Country string `query:"country" maxLength:"2"`
		SortBy  string `query:"sort_by" enum:"name,email,created"`
		SortDir string `query:"sort_by_dir" enum:"asc,desc"`

		Metadata map[string]string `query:"metadata" doc:"By key: metadata[key]=value."`
	}

	recipientList struct {
		CompanyID string `query:"company_id"`
		recipientChoice
		cursorPaging
	}

	recipientPage struct {
		Data []RecipientItem `json:"data"`
		Meta meta            `json:"meta"`
	}

	// RecipientItem describes a recipient in a list.
	RecipientItem struct {
		ID            string `json:"id"`
		RecipientID   string `json:"recipient_id" doc:"The same as id."`
		Email         string `json:"email"`
		Name          string `json:"name"`
		FirstName     string `json:"first_name"`
		LastName      string `json:"last_name"`
		Role          string `json:"role" enum:"contractor,employee,vendor"`
		RecipientType string `json:"recipient_type" enum:"user,company"`
		Status        string `json:"status" enum:"active,pending,inactive"`
		Country       string `json:"country"`
		ExternalID    string `json:"external_id"`
		Department    string `json:"department"`
		VendorType    string `json:"vendor_type"`
		Created       string `json:"created" format:"date"`

		Metadata map[string]string `json:"metadata"`
	}

	recipientGet struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
	}

	// recipientDetail omits the phone number, address and date of birth, which the scope for lists does not permit.
	recipientDetail struct {
		RecipientItem
		RelationshipID string `json:"relationship_id"`
		UserID         string `json:"user_id" doc:"For a worker with a login."`
	}

	recipientUpdateInput struct {
		CompanyID   string `path:"company_id"`
		RecipientID string `path:"recipient_id"`
		Body        recipientUpdateBody
	}

	// recipientUpdateBody has pointer fields to distinguish an absent field, which stays unchanged, from an empty one,
	// which is cleared.
	recipientUpdateBody struct {
		ExternalID     *string `json:"external_id,omitempty" maxLength:"255"`
		Email          *string `json:"email,omitempty" maxLength:"254"`
		FirstName      *string `json:"first_name,omitempty" maxLength:"100"`
		LastName       *string `json:"last_name,omitempty" maxLength:"100"`
		PhoneNumber    *string `json:"phone_number,omitempty" maxLength:"40"`
		PhoneCountry   *string `json:"phone_country,omitempty" maxLength:"2" format:"country"`
		DateOfBirth    *string `json:"date_of_birth,omitempty" maxLength:"10"`
		StreetAddress  *string `json:"street_address,omitempty" maxLength:"200"`
		StreetAddress2 *string `json:"street_address_2,omitempty" maxLength:"200"`
		City           *string `json:"city,omitempty" maxLength:"100"`
		State          *string `json:"state,omitempty" maxLength:"100"`
		Zip            *string `json:"zip,omitempty" maxLength:"20"`
		Country        *string `json:"country,omitempty" maxLength:"2" format:"country"`
		Role           *string `json:"role,omitempty" enum:"contractor,employee,vendor"`
		Department     *string `json:"department,omitempty" maxLength:"100"`
		VendorType     *string `json:"vendor_type,omitempty" maxLength:"100"`
		Name           *string `json:"name,omitempty" maxLength:"200"`

		Metadata *map[string]string `json:"metadata,omitempty" doc:"Replaces all metadata; empty removes them."`
	}

	recipientImportInput struct {
		CompanyID string `path:"company_id"`
		Body      recipientImportBody
	}

	recipientImportBody struct {
		CSV    string `json:"csv" format:"csv"`
		DryRun bool   `json:"dry_run,omitempty" doc:"Validate only; create nothing."`
	}

	recipientImported struct {
		DryRun   bool          `json:"dry_run" doc:"Whether this was only a validation and nothing was created."`
		Created  int           `json:"created" doc:"Rows for which a recipient was created."`
		Existing int           `json:"existing" doc:"Rows whose external_id already exists; skipped."`
		Failed   int           `json:"failed" doc:"Invalid rows; the others were created."`
		Results  []importedRow `json:"results" doc:"Result of each row, in order."`
	}

	importedRow struct {
		Row         int             `json:"row" doc:"Row number; the row of column names is 1."`
		Status      string          `json:"status" enum:"created,existing,valid,failed"`
		RecipientID string          `json:"recipient_id"`
		Errors      []importProblem `json:"errors"`
	}

	importProblem struct {
		Code    string `json:"code"`
		Column  string `json:"column" doc:"The name of the column."`
		Message string `json:"message"`
	}

	recipientExport struct {
		CompanyID string `path:"company_id"`
		recipientChoice
	}

	workerList struct {
		CompanyID string `query:"company_id"`
		UserID    string `query:"user_id"`
		Email     string `query:"email"`
		cursorPaging
	}

	workerPage struct {
		Data []workerItem `json:"data"`
		Meta meta         `json:"meta"`
	}

	workerItem struct {
		UserID             string `json:"user_id"`
		Email              string `json:"email"`
		FirstName          string `json:"first_name"`
		LastName           string `json:"last_name"`
		OnboardingComplete bool   `json:"onboarding_complete"`
		HasDistributions   bool   `json:"has_distributions"`
	}
)

// createdRecipient returns the handler of create-recipient. The response states whether the recipient already
// existed.
func createdRecipient() handler {
	h := handle(createRecipient)
	h.adaptStored = func(stored string) string {
		return strings.Replace(stored, `"idempotency_replayed":false`, `"idempotency_replayed":true`, 1)
	}
	return h
}

func createRecipient(ctx context.Context, tx *db.Tx, c *request, in *recipientCreateInput) (*recipientCreated, error) {
	b := &in.Body
	r, err := payee.Create(ctx, tx, c.Sealer, c.by, payee.CreateParams{
		CompanyID: c.company, ExternalID: b.ExternalID, Type: b.RecipientType, Role: b.Role, Department: b.Department,
		VendorType: b.VendorType, Name: b.Name, Metadata: b.Metadata,
		Profile: identity.Profile{
			Email: b.Email, FirstName: b.FirstName, LastName: b.LastName, Country: b.Country,
			Details: identity.Details{
				PhoneNumber: b.PhoneNumber, PhoneCountry: b.PhoneCountry, DateOfBirth: b.DateOfBirth,
				StreetAddress: b.StreetAddress, StreetAddress2: b.StreetAddress2, City: b.City, State: b.State, Zip: b.Zip,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	return &recipientCreated{
		RecipientID: r.ID, RecipientType: r.Type, RelationshipID: r.RelationshipID, Status: r.Status,
	}, nil
}

func (r recipientChoice) params(companyID string) payee.ListParams {
	return payee.ListParams{
		CompanyID: companyID, Search: r.Search, Role: r.Role, Type: r.Type, Status: r.Status, Country: r.Country,
		SortBy: r.SortBy, SortDir: r.SortDir, Metadata: r.Metadata,
	}
}

func listRecipients(ctx context.Context, tx *db.Tx, c *request, in *recipientList) (*recipientPage, error) {
	params := in.params(c.company)
	params.Page = in.page()
	found, err := payee.List(ctx, tx, c.by, params)
	if err != nil {
		return nil, err
	}
	out := &recipientPage{Data: make([]RecipientItem, len(found.Items)), Meta: metaOf(in.cursorPaging,
		int64(found.Total), found.Items,
		func(x payee.Recipient) string { return x.ID })}
	for i, r := range found.Items {
		out.Data[i] = showRecipient(&r)
	}
	return out, nil
}

func showRecipient(r *payee.Recipient) RecipientItem {
	return RecipientItem{
		ID: r.ID, RecipientID: r.ID, Email: r.Email, Name: r.Name, FirstName: r.FirstName, LastName: r.LastName, Role: r.Role,
		RecipientType: r.Type, Status: r.Status, Country: r.Country, ExternalID: r.ExternalID, Department: r.Department,
		VendorType: r.VendorType, Metadata: r.Metadata, Created: r.Created.UTC().Format(time.DateOnly),
	}
}

func importRecipients(
	ctx context.Context, tx *db.Tx, c *request, in *recipientImportInput,
) (*recipientImported, error) {
	rows, err := payee.Import(ctx, tx, c.Sealer, c.by, c.company, in.Body.CSV, in.Body.DryRun)
	if err != nil {
		return nil, err
	}
	out := &recipientImported{DryRun: in.Body.DryRun, Results: make([]importedRow, len(rows))}
	for i, r := range rows {
		row := importedRow{
			Row: r.Row, Status: r.Status, RecipientID: r.RecipientID, Errors: make([]importProblem, len(r.Problems)),
		}
		for j, p := range r.Problems {
			row.Errors[j] = importProblem{p.Code, p.Pointer, p.Message}
		}
		switch r.Status {
		case payee.ImportCreated:
			out.Created++
		case payee.ImportExisting:
			out.Existing++
		case payee.ImportFailed:
			out.Failed++
		}
		out.Results[i] = row
	}
	return out, nil
}

func exportRecipients(ctx context.Context, tx *db.Tx, c *request, in *recipientExport) (*file, error) {
	write, err := payee.Export(ctx, tx, c.by, in.params(c.company))
	return &file{name: "recipients.csv", write: write}, err
}

func detailOrErr(r payee.Recipient, err error) (*recipientDetail, error) {
	if err != nil {
		return nil, err
	}
	return &recipientDetail{showRecipient(&r), r.RelationshipID, r.UserID}, nil
}

func getRecipient(ctx context.Context, tx *db.Tx, c *request, in *recipientGet) (*recipientDetail, error) {
	return detailOrErr(payee.Get(ctx, tx, c.by, c.company, in.RecipientID))
}

func updateRecipient(ctx context.Context, tx *db.Tx, c *request, in *recipientUpdateInput) (*recipientDetail, error) {
	b := &in.Body
	return detailOrErr(payee.Update(ctx, tx, c.Sealer, c.by, c.company, in.RecipientID, payee.Changes{
		ExternalID: b.ExternalID, Role: b.Role, Department: b.Department, VendorType: b.VendorType, Name: b.Name,
		Email: b.Email, FirstName: b.FirstName, LastName: b.LastName, Country: b.Country,
		PhoneNumber: b.PhoneNumber, PhoneCountry: b.PhoneCountry, DateOfBirth: b.DateOfBirth,
		StreetAddress: b.StreetAddress, StreetAddress2: b.StreetAddress2, City: b.City, State: b.State, Zip: b.Zip,
		Metadata: b.Metadata,
	}))
}

func deactivateRecipient(ctx context.Context, tx *db.Tx, c *request, in *recipientGet) (*recipientDetail, error) {
	return detailOrErr(payee.Deactivate(ctx, tx, c.by, c.company, in.RecipientID))
}

func reactivateRecipient(ctx context.Context, tx *db.Tx, c *request, in *recipientGet) (*recipientDetail, error) {
	return detailOrErr(payee.Reactivate(ctx, tx, c.by, c.company, in.RecipientID))
}

func listWorkers(ctx context.Context, tx *db.Tx, c *request, in *workerList) (*workerPage, error) {
	found, err := payee.Workers(ctx, tx, c.by, payee.WorkersParams{
		CompanyID: c.company, UserID: in.UserID, Email: in.Email, Page: in.page(),
	})
	if err != nil {
		return nil, err
	}
	out := &workerPage{Data: make([]workerItem, len(found.Items)), Meta: metaOf(in.cursorPaging,
		int64(found.Total), found.Items,
		func(x payee.Worker) string { return x.UserID })}
	for i, w := range found.Items {
		out.Data[i] = workerItem(w)
	}
	return out, nil
}
