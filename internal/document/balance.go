package document

import (
	"bytes"
	"cmp"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/payout/bank/iso20022"
	"github.com/stipend/stipend/internal/wallet"
)

var errNoISOFor = apierr.New(apierr.Invalid, "currency_not_supported",
	"camt.053 files are available for fiat currencies only.")

// balanceName returns a file name, without extension, that consists of the statement's currency and dates.
func balanceName(s wallet.Statement) string {
	last := s.To.Add(-time.Microsecond)
	return "statement-" + string(s.Currency) + "-" + s.From.UTC().Format(time.DateOnly) + "-" + last.UTC().Format(
		time.DateOnly)
}

// BalancePDF returns the statement of a balance as a PDF. owner is the name of the balance's owner.
func (w *Writer) BalancePDF(owner string, s wallet.Statement, now time.Time) (File, error) {
	doc := w.New(owner, w.Text("wallet.statement.of", s.Currency), w.FormatMoney(s.Closing), s.CompanyID, now, [][2]string{
		{"field.since", w.FormatTime(s.From)}, {"field.until", w.FormatTime(s.To)},
		{"wallet.opening", w.FormatMoney(s.Opening)}, {"wallet.in", w.FormatMoney(s.In)},
		{"wallet.out", w.FormatMoney(s.Out)}, {"wallet.closing", w.FormatMoney(s.Closing)},
	})
	const when, what, amount = 0.24, 0.36, 0.2 // shares of the width; the rest is for the balance
	row := func(style, at, text, moved, balance string) {
		doc.Style(style, 8)
		doc.CellFormat(Width*when, Line, at, "B", 0, "L", false, 0, "")
		doc.CellFormat(Width*what, Line, doc.Shorten(text, Width*what-2), "B", 0, "L", false, 0, "")
		doc.CellFormat(Width*amount, Line, moved, "B", 0, "R", false, 0, "")
		doc.CellFormat(Width*(1-when-what-amount), Line, balance, "B", 1, "R", false, 0, "")
	}
	row("B", w.Text("step.at"), w.Text("wallet.what"), w.Text("payment.amount"), w.Text("wallet.balance"))
	for _, t := range s.Lines {
		row("", w.FormatTime(t.At), w.Word("transaction", t.Type), w.FormatMoney(t.Amount), w.FormatMoney(t.Balance))
		doc.Quiet(7)
		doc.SetX(Margin + 5)
		doc.MultiCell(Width-5, 4, t.ID+"  "+t.SourceID, "", "L", false)
	}
	return doc.file(balanceName(s))
}

// TransactionsCSV returns the transactions of balances, in one or several currencies, as CSV.
func TransactionsCSV(name string, all []wallet.Transaction) (File, error) {
	rows := [][]string{{"transaction_id", "time", "type", "description", "amount", "currency", "balance", "source_type",
		"source_id"}}
	for _, t := range all {
		rows = append(rows, []string{
			t.ID, timestamp(t.At), t.Type, t.Description, t.Amount.String(), string(t.Amount.Asset()),
			t.Balance.String(), t.SourceType, t.SourceID,
		})
	}
	return Sheet(name, rows)
}

// BalanceCSV returns the lines of the statement of a balance as CSV.
func BalanceCSV(s wallet.Statement) (File, error) {
	return TransactionsCSV(balanceName(s)+".csv", s.Lines)
}

// BalanceISO returns the statement of a fiat balance as camt.053, for accounting software. owner is the name of the
// balance's owner.
func BalanceISO(owner string, s wallet.Statement, now time.Time) (File, error) {
	if s.Currency.IsCrypto() {
		return File{}, errNoISOFor
	}
	stamp := now.UTC()
	var b bytes.Buffer
	w, err := iso20022.WriteStatement(&b, iso20022.Statement{
		File:    string(s.Currency) + stamp.Format("20060102150405"),
		ID:      string(s.Currency) + s.From.UTC().Format("20060102") + s.To.UTC().Format("20060102150405"),
		Created: stamp, From: s.From, To: s.To, Account: s.CompanyID, Currency: string(s.Currency),
		Owner: owner,
		Balances: []iso20022.Balance{{Type: "OPBD", Amount: s.Opening, Day: s.From.UTC()},
			{Type: "CLBD", Amount: s.Closing, Day: s.To.UTC().Add(-time.Microsecond)}},
	})
	if err != nil {
		return File{}, err
	}
	for _, t := range s.Lines {
		if err := w.Entry(entryOf(t)); err != nil {
			return File{}, err
		}
	}
	if err := w.Close(); err != nil {
		return File{}, err
	}
	return File{balanceName(s) + ".xml", TypeXML, b.Bytes()}, nil
}

func entryOf(t wallet.Transaction) iso20022.Entry {
	amount, credit := t.Amount, true
	if amount.Sign() < 0 {
		amount, credit = amount.Neg(), false
	}
	kind := iso20022.Type{Domain: "PMNT", Family: "ICDT", SubFamily: "OTHR"}
	if credit {
		kind.Family = "RCDT"
	}
	return iso20022.Entry{
		Reference: t.ID, Servicer: t.ID, Amount: amount, Credit: credit, Status: "BOOK", Booked: t.At.UTC(),
		Valued: t.At.UTC(), Type: kind, Info: t.Description,
		Details: []iso20022.Detail{{EndToEndID: cmp.Or(t.SourceID, t.ID), Amount: amount, Credit: credit}},
	}
}
