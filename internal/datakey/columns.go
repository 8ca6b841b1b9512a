package datakey

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stipend/stipend/internal/identity"
)

// Column is a column whose values are, or contain, data encrypted with the data key. It does not describe values
// encrypted with the key of a person or company: of these, only the key itself is encrypted with the data key
// (subjects.wrapped_key).
type Column struct {
	Table, Name string
	// Keys are the columns of the primary key, separated by spaces.
	Keys string
	// Row is an SQL expression for the row to which the value is bound ([identity.SealContext]), or [Snapshot].
	Row string
	// As is the table and column to which the value is bound, if not Table.Name.
	As string
}

// Snapshot is the Row of columns with JSON snapshots of destinations. Each snapshot names the row to which its sealed
// member is bound.
const Snapshot = ""

// Columns lists all columns with encrypted values. Tests compare it with the code, the schema and the data.
var Columns = []Column{
	{Table: "subjects", Name: "wrapped_key", Keys: "subject_id", Row: "subject_id"},
	{Table: "users", Name: "details", Keys: "user_id", Row: "user_id"},
	{Table: "recipients", Name: "details", Keys: "company_id recipient_id", Row: "company_id || '/' || recipient_id"},
	{Table: "destinations", Name: "sealed", Keys: "owner_id destination_id", Row: "owner_id || '/' || destination_id"},
	{Table: "destinations", Name: "correction", Keys: "owner_id destination_id",
		Row: "owner_id || '/' || destination_id", As: "destinations.sealed"},
	{Table: "destinations", Name: "account_check", Keys: "owner_id destination_id",
		Row: "owner_id || '/' || destination_id"},
	{Table: "destination_requests", Name: "draft", Keys: "company_id recipient_id",
		Row: "company_id || '/' || recipient_id"},
	{Table: "outputs", Name: "destination", Keys: "company_id output_id", Row: Snapshot, As: "destinations.sealed"},
	{Table: "company_destinations", Name: "snapshot", Keys: "company_id destination_id", Row: Snapshot,
		As: "destinations.sealed"},
	{Table: "direct_debit_mandates", Name: "account", Keys: "company_id mandate_id", Row: Snapshot,
		As: "destinations.sealed"},
	{Table: "bank_prenotes", Name: "destination", Keys: "prenote_id", Row: Snapshot, As: "destinations.sealed"},
	{Table: "bank_files", Name: "sealed", Keys: "company_id file_id", Row: "company_id || '/' || file_id"},
	{Table: "bank_changes", Name: "sealed", Keys: "company_id file_id position code",
		Row: "company_id || '/' || file_id || '/' || position || '/' || code"},
	{Table: "direct_debit_mandates", Name: "accepted_from", Keys: "company_id mandate_id",
		Row: "company_id || '/' || mandate_id"},
	{Table: "direct_debits", Name: "sealed", Keys: "company_id debit_id", Row: "company_id || '/' || debit_id"},
	{Table: "funding_accounts", Name: "details", Keys: "owner_id account_id", Row: "owner_id || '/' || account_id"},
	{Table: "travel_rule_records", Name: "sealed", Keys: "company_id record_id", Row: "company_id || '/' || record_id"},
	{Table: "invoices", Name: "content", Keys: "user_id invoice_id", Row: "user_id || '/' || invoice_id"},
	{Table: "payers", Name: "details", Keys: "owner_id payer_id", Row: "owner_id || '/' || payer_id"},
	{Table: "vendor_document_chunks", Name: "sealed", Keys: "company_id document_id n",
		Row: `company_id || '/' || document_id || '/' || n || '/' || (SELECT bytes FROM vendor_documents
			WHERE vendor_documents.company_id = vendor_document_chunks.company_id
				AND vendor_documents.document_id = vendor_document_chunks.document_id)`},
	{Table: "claims", Name: "payer_email", Keys: "company_id claim_id", Row: "claim_id"},
	{Table: "lightning_invoices", Name: "preimage", Keys: "company_id invoice_id", Row: "invoice_id"},
	{Table: "proposals", Name: "content", Keys: "company_id proposal_id", Row: "proposal_id"},
	{Table: "mails", Name: "data", Keys: "company_id mail_id", Row: "mail_id"},
	{Table: "idempotency", Name: "response", Keys: "principal route key", Row: "principal || ' ' || route || ' ' || key"},
	{Table: "webhook_endpoints", Name: "secret", Keys: "company_id endpoint_id", Row: "endpoint_id"},
	{Table: "webhook_endpoints", Name: "previous_secret", Keys: "company_id endpoint_id", Row: "endpoint_id",
		As: "webhook_endpoints.secret"},
	{Table: "sso_connections", Name: "client_secret", Keys: "company_id", Row: "company_id"},
	{Table: "second_factors", Name: "secret", Keys: "user_id", Row: "user_id"},
	{Table: "sessions", Name: "kept_form", Keys: "digest", Row: "session_id"},
	{Table: "staff", Name: "secret", Keys: "staff_id", Row: "staff_id"},
	{Table: "staff_notes", Name: "sealed", Keys: "company_id note_id", Row: "note_id"},
}

// context returns the context to which a value is bound.
func (c Column) context(v value) (identity.SealContext, error) {
	table, name, _ := strings.Cut(cmp.Or(c.As, c.Table+"."+c.Name), ".")
	at := identity.SealContext{Table: table, Column: name, Row: v.row}
	if c.Row != Snapshot {
		return at, nil
	}
	var d struct {
		Owner string `json:"owner_id"`
		ID    string `json:"distribution_id"`
	}
	if err := json.Unmarshal([]byte(v.text), &d); err != nil {
		return at, fmt.Errorf("datakey: %s.%s of %v is not a destination: %w", c.Table, c.Name, v.key, err)
	}
	at.Row = d.Owner + "/" + d.ID
	return at, nil
}
