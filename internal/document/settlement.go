package document

import (
	"time"

	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/money"
)

// MaxSettlementLines is the maximum number of a settlement's lines in a PDF. The CSV file contains all lines.
const MaxSettlementLines = 1000

// Fact is a line of a summary: the text key of its name, and its value.
type Fact struct {
	Key, Value string
	Total      bool
}

// SettlementFacts returns the sums of a settlement and its exchange rate.
func (w *Writer) SettlementFacts(x claim.Statement) []Fact {
	all := []Fact{
		{"settlement.opening", w.FormatMoney(x.Opening), false}, {"settlement.claims", w.FormatMoney(x.Claims), false},
		{"settlement.fees", w.FormatMoney(x.Fees.Neg()), false},
		{"settlement.refunds", w.FormatMoney(x.Refunds.Neg()), false},
		{"settlement.earned", w.FormatMoney(x.Earned), true}, {"settlement.closing", w.FormatMoney(x.Closing), false},
	}
	if !x.Rate.IsZero() {
		all = append(all, Fact{"settlement.rate", w.Text("settlement.rate.is", x.Rate.Base(),
			w.FormatNumber(x.Rate.String()), x.Rate.Quote()), false})
	}
	return append(all, Fact{"settlement.net", w.FormatMoney(x.Amount), true})
}

// SettledTo describes where the money of a settlement is.
func (w *Writer) SettledTo(x claim.Settlement) string {
	if x.WithdrawalID != "" {
		return w.Text("settlement.withdrawal")
	}
	return w.Text("settlement.balance")
}

// SettlementPDF returns the statement of a settlement, with its first MaxSettlementLines lines, as a PDF. owner is
// the name of the merchant.
func (w *Writer) SettlementPDF(owner string, x claim.Statement, lines []claim.StatementLine, now time.Time) (File,
	error) {
	facts := [][2]string{{"step.at", w.FormatTime(x.CreatedAt)}, {"settlement.to", w.SettledTo(x.Settlement)}}
	for _, f := range w.SettlementFacts(x) {
		facts = append(facts, [2]string{f.Key, f.Value})
	}
	doc := w.New(owner, w.Text("settlement.id"), "", x.ID, now, facts)
	const when, what, amount = 0.22, 0.3, 0.16 // shares of the width
	row := func(style, at, text string, amounts ...string) {
		doc.Style(style, 8)
		doc.CellFormat(Width*when, Line, at, "B", 0, "L", false, 0, "")
		doc.CellFormat(Width*what, Line, doc.Shorten(text, Width*what-2), "B", 0, "L", false, 0, "")
		for i, a := range amounts {
			end := 0
			if i == len(amounts)-1 {
				end = 1
			}
			doc.CellFormat(Width*amount, Line, a, "B", end, "R", false, 0, "")
		}
	}
	row("B", w.Text("step.at"), w.Text("wallet.what"), w.Text("settlement.gross"), w.Text("settlement.fee"),
		w.Text("settlement.line.net"))
	for _, l := range lines[:min(len(lines), MaxSettlementLines)] {
		row("", w.FormatTime(l.At), w.Word("settlement.line", l.Type)+" "+l.ExternalID, w.FormatNumber(l.Gross.String()),
			w.FormatNumber(l.Fee.String()), w.FormatNumber(l.Net.String()))
		doc.Quiet(7)
		doc.SetX(Margin + 5)
		doc.MultiCell(Width-5, 4, l.ClaimID+"  "+l.RefundID, "", "L", false)
	}
	if x.Count > MaxSettlementLines {
		doc.Quiet(8)
		doc.MultiCell(Width, Line, w.Text("settlement.more", w.FormatCount(MaxSettlementLines),
			w.FormatCount(x.Count)), "", "L", false)
	}
	return doc.file("settlement-" + x.ID)
}

// SettlementCSV returns the lines of a settlement as CSV. The last row is the settlement itself.
func SettlementCSV(x claim.Statement, lines []claim.StatementLine) (File, error) {
	rows := [][]string{{"settlement_id", "created", "type", "claim_id", "external_id", "refund_id", "gross_amount",
		"fee_amount", "net_amount", "currency", "rate", "credited_amount", "credited_currency", "withdrawal_id"}}
	earnedIn := string(x.Earned.Asset())
	for _, l := range lines {
		rows = append(rows, []string{x.ID, timestamp(l.At), l.Type, l.ClaimID, l.ExternalID, l.RefundID,
			l.Gross.String(), l.Fee.String(), l.Net.String(), earnedIn, "", "", "", ""})
	}
	rate := ""
	if !x.Rate.IsZero() {
		rate = x.Rate.String()
	}
	settled := x.Earned.Neg().String()
	rows = append(rows, []string{x.ID, timestamp(x.CreatedAt), "settlement", "", "", "", settled,
		money.Zero(x.Earned.Asset()).String(), settled, earnedIn, rate, x.Amount.String(), string(x.Amount.Asset()),
		x.WithdrawalID})
	return Sheet("settlement-"+x.ID+".csv", rows)
}
