package column

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout/bank"
)

// Types of reports.
const (
	summaryReport     = "bank_account_summary"
	transactionReport = "bank_account_transaction"
)

// report is a report that Column creates on request.
type report struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Status   string `json:"status"`
	From     string `json:"from_date"`
	To       string `json:"to_date"`
	Zone     string `json:"time_zone"`
	Document string `json:"json_document_id"`
}

// summary is the row of one account in a bank_account_summary report. The balance of the account is the sum of its
// available, locked and holding money; pending money has not settled.
type summary struct {
	Account        string `json:"bank_account_id"`
	AvailableOpen  int64  `json:"available_balance_open"`
	LockedOpen     int64  `json:"locked_balance_open"`
	HoldingOpen    int64  `json:"holding_balance_open"`
	AvailableClose int64  `json:"available_balance_close"`
	LockedClose    int64  `json:"locked_balance_close"`
	HoldingClose   int64  `json:"holding_balance_close"`
}

// transaction is a row of a bank_account_transaction report.
type transaction struct {
	Account   string    `json:"bank_account_id"`
	At        time.Time `json:"effective_at_utc"`
	ID        string    `json:"transaction_id"` // of the transfer
	Type      string    `json:"transaction_type"`
	Currency  string    `json:"currency"`
	Available int64     `json:"available_amount"`
	Locked    int64     `json:"locked_amount"`
	Holding   int64     `json:"holding_amount"`
}

// Statement implements bank.API. It takes the balances from a bank_account_summary report and the entries from a
// bank_account_transaction report of the same day. Column creates both on request.
func (a *API) Statement(ctx context.Context, of bank.Account, from, _ time.Time) (bank.Statement, error) {
	var s bank.Statement
	var accounts []summary
	var rows []transaction
	day := of.Day(from)
	// Both reports are requested at once. An error of one report is returned even if the other is pending.
	err := a.readReport(ctx, of, summaryReport, day, &accounts)
	other := a.readReport(ctx, of, transactionReport, day, &rows)
	if err == nil || errors.Is(err, bank.ErrStatementPending) && other != nil {
		err = other
	}
	if err != nil {
		return s, err
	}
	i := slices.IndexFunc(accounts, func(x summary) bool { return x.Account == of.Number })
	if i < 0 {
		return s, fmt.Errorf("column: the summary of %s does not have the account %s", day, of.Number)
	}
	x := accounts[i]
	s.Opening = money.New(money.USD, x.AvailableOpen+x.LockedOpen+x.HoldingOpen)
	s.Closing = money.New(money.USD, x.AvailableClose+x.LockedClose+x.HoldingClose)
	rows = slices.DeleteFunc(rows, func(t transaction) bool { return t.Account != of.Number || t.cents() == 0 })
	slices.SortStableFunc(rows, func(x, y transaction) int { return x.At.Compare(y.At) })
	equal := map[string]int{}
	for _, t := range rows {
		if t.Currency != string(money.USD) {
			return s, fmt.Errorf("column: transaction %s is in %q", t.ID, t.Currency)
		}
		e, err := a.entry(ctx, t)
		if err != nil {
			return s, err
		}
		e.ID = t.name(equal[t.name(0)])
		equal[t.name(0)]++
		s.Entries = append(s.Entries, e)
	}
	return s, nil
}

// cents returns the change of the account's balance. It is zero for money that was only locked or released.
func (t transaction) cents() int64 { return t.Available + t.Locked + t.Holding }

// name returns an identifier for a row. Rows have no ID of their own: a transfer and its return have the same
// transaction_id. n, from 0, distinguishes equal rows.
func (t transaction) name(n int) string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d %d", t.ID, t.Type, t.At.UTC().Format(time.RFC3339Nano),
		t.cents(), n))
	return "column_" + hex.EncodeToString(digest[:12])
}

// failed reports whether Column will never complete the report. A report with an unknown status may still complete.
func (r report) failed() bool {
	return slices.Contains([]string{"failed", "error", "canceled", "cancelled", "expired"}, strings.ToLower(r.Status))
}

// readReport decodes the JSON document of a report about one day. If Column has not created the report yet,
// readReport requests it and returns bank.ErrStatementPending. If Column failed to create it, readReport requests it
// again, with another key, and returns an error about the failure.
func (a *API) readReport(ctx context.Context, of bank.Account, kind, day string, into any) error {
	query := url.Values{"type": {kind}, "from_date": {day}, "to_date": {day}, "limit": {strconv.Itoa(pageSize)}}
	var list struct {
		Reports []report `json:"reports"`
	}
	if err := a.client.Get(ctx, "/reporting?"+query.Encode(), &list); err != nil {
		return err
	}
	fits := func(r report) bool { return r.Type == kind && r.From == day && r.To == day && r.Zone == of.Zone }
	failures := 0
	for _, r := range list.Reports {
		if fits(r) && r.failed() {
			failures++
		}
	}
	i := slices.IndexFunc(list.Reports, func(r report) bool { return fits(r) && !r.failed() })
	if i < 0 {
		key := "statement-" + of.Number + "-" + kind + "-" + day + "-" + of.Zone
		if failures > 0 {
			key += "-" + strconv.Itoa(failures)
		}
		var made report
		if err := a.client.Post(ctx, "/reporting", key, object{"type": kind, "from_date": day, "to_date": day,
			"time_zone": of.Zone}, &made); err != nil {
			return err
		}
		if !fits(made) {
			return fmt.Errorf("column: the report is about %s to %s in the zone %q; set the zone of the bank account %s to it",
				made.From, made.To, made.Zone, of.ID)
		}
		if failures > 0 || made.failed() {
			return fmt.Errorf("column: the report %s of %s could not be made, %d times; it is requested again; "+
				"if this goes on, ask Column", kind, day, max(failures, 1))
		}
		list.Reports, i = []report{made}, 0
	}
	if r := list.Reports[i]; r.Status != "completed" || r.Document == "" {
		return bank.ErrStatementPending
	}
	var document struct {
		URL string `json:"url"`
	}
	if err := a.client.Get(ctx, "/documents/"+url.PathEscape(list.Reports[i].Document), &document); err != nil {
		return err
	}
	return a.client.Download(ctx, document.URL, into)
}

// incoming maps the beginning of the transaction_type of a received transfer to the transfer's path.
var incoming = map[string]string{"ach.incoming_": ach, "wire.incoming_": wire, "realtime.incoming_": realtime,
	"book.": "book"}

// entry converts a transaction to an entry of the statement.
func (a *API) entry(ctx context.Context, t transaction) (bank.Entry, error) {
	e := bank.Entry{At: t.At, Amount: money.New(money.USD, t.cents()), Transfer: t.ID, Text: t.Type}
	// A type is, for example, ach.outgoing_transfer.settled.
	words := strings.FieldsFunc(t.Type, func(r rune) bool { return r == '.' || r == '_' })
	has := func(word string) bool { return slices.Contains(words, word) }
	e.Ordered = has("outgoing")
	e.Returned = has("returned") || has("rejected") || has("canceled")
	e.Interest, e.Fee = has("interest") || strings.HasPrefix(t.ID, "ipay_"), has("fee")
	if e.Interest || e.Fee {
		e.Transfer = ""
		return e, nil
	}
	for prefix, path := range incoming {
		if e.Amount.Sign() <= 0 || !strings.HasPrefix(t.Type, prefix) {
			continue
		}
		var of struct {
			Company     string `json:"company_name"`
			Originator  string `json:"originator_name"`
			Debtor      string `json:"debtor_name"`
			Entry       string `json:"company_entry_description"`
			Reference   string `json:"beneficiary_reference"`
			Description string `json:"description"`
		}
		if err := a.client.Get(ctx, "/transfers/"+path+"/"+url.PathEscape(t.ID), &of); err != nil {
			return e, err
		}
		e.Payer = of.Company + of.Originator + of.Debtor // each kind of transfer has one of the names
		if text := strings.Join(strings.Fields(of.Entry+" "+of.Reference+" "+of.Description), " "); text != "" {
			e.Text = text
		}
	}
	return e, nil
}
