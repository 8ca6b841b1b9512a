package company

import (
	"bytes"
	"context"

	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	settlementLines = 1000 // lines read at a time
	maxPDFLines     = 1000 // lines in a PDF; the CSV file has all
)

func settlementPath(id string) string { return settlementsPath + "/" + id }

// settledTo says where the money of a settlement is.
func settledTo(c *ui.Request, x claim.Settlement) ui.Cell {
	if x.WithdrawalID != "" {
		return c.LinkCell(c.Text("settlement.withdrawal"), withdrawalPath(x.WithdrawalID))
	}
	return ui.Cell{Text: c.Text("settlement.balance")}
}

type settlementPage struct {
	Path  string
	Facts []settlementFact
	To    ui.Cell
	At    ui.Cell
	Lines ui.Table
	Pager ui.Pager
}

// settlementFact is a line of the summary.
type settlementFact struct {
	Key, Value string
	Total      bool
}

// settlementFacts returns the sums of a statement, with the rate.
func settlementFacts(c *ui.Request, x claim.Statement) []settlementFact {
	all := []settlementFact{
		{"settlement.opening", c.FormatMoney(x.Opening), false}, {"settlement.claims", c.FormatMoney(x.Claims), false},
		{"settlement.fees", c.FormatMoney(x.Fees.Neg()), false},
		{"settlement.refunds", c.FormatMoney(x.Refunds.Neg()), false},
		{"settlement.earned", c.FormatMoney(x.Earned), true}, {"settlement.closing", c.FormatMoney(x.Closing), false},
	}
	if !x.Rate.IsZero() {
		all = append(all, settlementFact{"settlement.rate", c.Text("settlement.rate.is", x.Rate.Base(),
			c.FormatNumber(x.Rate.String()), x.Rate.Quote()), false})
	}
	return append(all, settlementFact{"settlement.net", c.FormatMoney(x.Amount), true})
}

// showSettlement renders the statement of a settlement.
func showSettlement(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	x, err := c.Claims.StatementOf(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	lines, err := x.Lines(ctx, tx, c.Page())
	if err != nil {
		return ui.View{}, err
	}
	p := settlementPage{Path: settlementPath(x.ID), Facts: settlementFacts(c, x), To: settledTo(c, x.Settlement),
		At: c.TimeCell(x.CreatedAt), Pager: c.Pager(c.Page(), x.Count),
		Lines: ui.Table{Caption: c.Text("settlement.lines"), Empty: c.Text("settlement.lines.none"), Heads: c.Columns(
			"claim.order|a", "wallet.what|c", "settlement.gross#|hide", "settlement.fee#|hide", "settlement.line.net#|b",
			"step.at#|d")}}
	for _, l := range lines {
		name := c.LinkCell(claimName(c, claim.Claim{ExternalID: l.ExternalID, PayerID: l.ClaimID}), claimPath(l.ClaimID))
		p.Lines.Rows = append(p.Lines.Rows, []ui.Cell{name, {Text: c.Word("settlement.line", l.Type)}, c.AmountCell(l.Gross),
			c.AmountCell(l.Fee), c.AmountCell(l.Net), c.TimeCell(l.At)})
	}
	return ui.View{Template: "settlement", Title: c.Text("settlement.id"), Crumbs: append(claimCrumbs(c),
		c.LinkCell(c.Text("settlements.title"), settlementsPath)), Data: p}, nil
}

// settlementCSV exports the statement of a settlement: its lines, and the settlement itself as the last one.
func settlementCSV(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	x, err := c.Claims.StatementOf(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	rows := [][]string{{"settlement_id", "created", "type", "claim_id", "external_id", "refund_id", "gross_amount",
		"fee_amount", "net_amount", "currency", "rate", "credited_amount", "credited_currency", "withdrawal_id"}}
	earnedIn := string(x.Earned.Asset())
	for page := 1; int64(page-1)*settlementLines < x.Count; page++ {
		lines, err := x.Lines(ctx, tx, db.Page{Number: page, PerPage: settlementLines})
		if err != nil {
			return ui.View{}, err
		}
		for _, l := range lines {
			rows = append(rows, []string{x.ID, ui.FormatTimestamp(l.At), l.Type, l.ClaimID, l.ExternalID, l.RefundID,
				l.Gross.String(), l.Fee.String(), l.Net.String(), earnedIn, "", "", "", ""})
		}
	}
	rate := ""
	if !x.Rate.IsZero() {
		rate = x.Rate.String()
	}
	settled := x.Earned.Neg().String()
	rows = append(rows, []string{x.ID, ui.FormatTimestamp(x.CreatedAt), "settlement", "", "", "", settled,
		money.Zero(x.Earned.Asset()).String(), settled, earnedIn, rate, x.Amount.String(), string(x.Amount.Asset()),
		x.WithdrawalID})
	f, err := Sheet("settlement-"+x.ID+".csv", rows)
	return ui.View{File: f}, err
}

// settlementPDF exports the statement of a settlement as PDF.
func settlementPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	x, err := c.Claims.StatementOf(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	lines, err := x.Lines(ctx, tx, db.Page{PerPage: maxPDFLines})
	if err != nil {
		return ui.View{}, err
	}
	facts := [][2]string{{"step.at", c.FormatTime(x.CreatedAt)}, {"settlement.to", settledTo(c, x.Settlement).Text}}
	for _, f := range settlementFacts(c, x) {
		facts = append(facts, [2]string{f.Key, f.Value})
	}
	doc := c.NewPDF(c.Session.Company.Name, c.Text("settlement.id"), "", x.ID, c.FormatTime(tx.Now()), facts)
	const when, what, amount = 0.22, 0.3, 0.16 // shares of the width
	row := func(style, at, text string, amounts ...string) {
		doc.Style(style, 8)
		doc.CellFormat(ui.PDFWidth*when, ui.PDFLine, at, "B", 0, "L", false, 0, "")
		doc.CellFormat(ui.PDFWidth*what, ui.PDFLine, ui.Shorten(doc, text, ui.PDFWidth*what-2), "B", 0, "L", false, 0, "")
		for i, a := range amounts {
			end := 0
			if i == len(amounts)-1 {
				end = 1
			}
			doc.CellFormat(ui.PDFWidth*amount, ui.PDFLine, a, "B", end, "R", false, 0, "")
		}
	}
	row("B", c.Text("step.at"), c.Text("wallet.what"), c.Text("settlement.gross"), c.Text("settlement.fee"),
		c.Text("settlement.line.net"))
	for _, l := range lines {
		row("", c.FormatTime(l.At), c.Word("settlement.line", l.Type)+" "+l.ExternalID, c.FormatNumber(l.Gross.String()),
			c.FormatNumber(l.Fee.String()), c.FormatNumber(l.Net.String()))
		doc.Quiet(7)
		doc.SetX(ui.PDFMargin + 5)
		doc.MultiCell(ui.PDFWidth-5, 4, l.ClaimID+"  "+l.RefundID, "", "L", false)
	}
	if x.Count > maxPDFLines {
		doc.Quiet(8)
		doc.MultiCell(ui.PDFWidth, ui.PDFLine, c.Text("settlement.more", c.FormatCount(maxPDFLines),
			c.FormatCount(x.Count)), "", "L", false)
	}
	var b bytes.Buffer
	err = doc.Output(&b)
	return ui.View{File: &ui.File{Name: "settlement-" + x.ID + ".pdf", ContentType: "application/pdf", Data: b.Bytes()}},
		err
}
