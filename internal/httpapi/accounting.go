package httpapi

import (
	"cmp"
	"context"
	"io"
	"strconv"

	"github.com/stipend/stipend/internal/accounting"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
)

type (
	yearInput struct {
		Year int `query:"year" minimum:"2000" maximum:"9999"`
	}

	yearReport struct {
		Year int         `json:"year"`
		Data []yearPayee `json:"data"`
	}

	yearPayee struct {
		PayeeID          string      `json:"payee_id"`
		Name             string      `json:"name"`
		Role             string      `json:"role"`
		RecipientType    string      `json:"recipient_type"`
		Country          string      `json:"country"`
		Payments         int64       `json:"payments"`
		Totals           []yearTotal `json:"totals"`
		ValueUSD         Decimal     `json:"value_usd"`
		ValueEUR         Decimal     `json:"value_eur"`
		UnvaluedPayments int64       `json:"unvalued_payments"`
		TaxForm          string      `json:"tax_form" enum:",w9,w8ben"`
		TaxFormStatus    string      `json:"tax_form_status" enum:"missing,valid,expired"`
		TaxIDOnFile      bool        `json:"tax_id_on_file"`
	}

	journalInput struct {
		Month    string `query:"month" maxLength:"7"`
		Currency string `query:"currency" enum:"USD,EUR"`
		Format   string `query:"format" enum:"csv,quickbooks,xero"`
		Part     int    `query:"part" default:"1" minimum:"1"`
	}

	journalAccounts struct {
		Accounts []journalAccount `json:"accounts"`
	}

	journalAccount struct {
		Account string `json:"account"`
		Code    string `json:"code"`
		Name    string `json:"name"`
	}

	journalAccountsInput struct{ Body journalAccountsBody }

	journalAccountsBody struct {
		Accounts []journalAccountBody `json:"accounts" minItems:"1" maxItems:"20"`
	}

	journalAccountBody struct {
		Account string `json:"account" minLength:"1" maxLength:"20"`
		Code    string `json:"code,omitempty" maxLength:"40"`
		Name    string `json:"name,omitempty" maxLength:"100"`
	}

	yearTotal struct {
		Currency string  `json:"currency"`
		Amount   Decimal `json:"amount"`
	}
)

// year returns the company's accounting totals for the requested year, or for the current year if the request names
// none.
func (c *request) year(ctx context.Context, tx *db.Tx, in *yearInput) (accounting.Year, error) {
	return accounting.YearOf(ctx, tx, c.KYC, c.by, cmp.Or(in.Year, tx.Now().UTC().Year()))
}

func getYear(ctx context.Context, tx *db.Tx, c *request, in *yearInput) (*yearReport, error) {
	y, err := c.year(ctx, tx, in)
	if err != nil {
		return nil, err
	}
	out := &yearReport{y.Year, make([]yearPayee, len(y.Payees))}
	for i := range y.Payees {
		p := &y.Payees[i]
		line := yearPayee{
			PayeeID: p.Payee.ID, Name: p.Payee.Name, Role: p.Payee.Role, RecipientType: p.Payee.Kind,
			Country: p.Payee.Country, Payments: p.Payments, Totals: make([]yearTotal, len(p.Totals)),
			ValueUSD: amount(p.USD), ValueEUR: amount(p.EUR), UnvaluedPayments: p.Unvalued, TaxForm: p.TaxForm.Form,
			TaxFormStatus: p.Status, TaxIDOnFile: p.TaxIDOnFile(),
		}
		for n, total := range p.Totals {
			line.Totals[n] = yearTotal{string(total.Asset()), amount(total)}
		}
		out.Data[i] = line
	}
	return out, nil
}

func exportYear(ctx context.Context, tx *db.Tx, c *request, in *yearInput) (*file, error) {
	y, err := c.year(ctx, tx, in)
	return &file{name: "payees-" + strconv.Itoa(y.Year) + ".csv", write: y.WriteCSV}, err
}

func exportNEC(ctx context.Context, tx *db.Tx, c *request, in *yearInput) (*file, error) {
	y, err := c.year(ctx, tx, in)
	return &file{name: "1099-nec-" + strconv.Itoa(y.Year) + ".csv", write: y.WriteNEC}, err
}

func exportJournal(ctx context.Context, tx *db.Tx, c *request, in *journalInput) (*file, error) {
	month := cmp.Or(in.Month, tx.Now().UTC().Format("2006-01"))
	format := cmp.Or(in.Format, accounting.FormatCSV)
	j, err := accounting.JournalOf(ctx, tx, c.by, month, cmp.Or(money.Asset(in.Currency), money.USD))
	if parts := j.Parts(format); in.Part <= len(parts) {
		j = parts[in.Part-1]
	} else {
		j.Entries = nil
	}
	return &file{name: "journal-" + month + ".csv", write: func(w io.Writer) error { return j.Write(w, format) }}, err
}

func listJournalAccounts(ctx context.Context, tx *db.Tx, c *request, _ *none) (*journalAccounts, error) {
	all, err := accounting.AccountsOf(ctx, tx, c.by)
	out := &journalAccounts{make([]journalAccount, len(all))}
	for i, a := range all {
		out.Accounts[i] = journalAccount{a.Key, a.Code, a.Name}
	}
	return out, err
}

func setJournalAccounts(ctx context.Context, tx *db.Tx, c *request, in *journalAccountsInput) (*journalAccounts,
	error) {
	changed := make([]accounting.Account, len(in.Body.Accounts))
	for i, a := range in.Body.Accounts {
		changed[i] = accounting.Account{Key: a.Account, Code: a.Code, Name: a.Name}
	}
	if err := accounting.SetAccounts(ctx, tx, c.by, changed); err != nil {
		return nil, err
	}
	return listJournalAccounts(ctx, tx, c, nil)
}
