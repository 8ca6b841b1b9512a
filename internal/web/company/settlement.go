package company

import (
	"context"

	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/web/ui"
)

func settlementPath(id string) string { return settlementsPath + "/" + id }

// settledTo says where the money of a settlement is.
func settledTo(c *ui.Request, x claim.Settlement) ui.Cell {
	if x.WithdrawalID != "" {
		return c.LinkCell(c.Documents().SettledTo(x), withdrawalPath(x.WithdrawalID))
	}
	return ui.Cell{Text: c.Documents().SettledTo(x)}
}

type settlementPage struct {
	Path  string
	Facts []document.Fact
	To    ui.Cell
	At    ui.Cell
	Lines ui.Table
	Pager ui.Pager
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
	p := settlementPage{Path: settlementPath(x.ID), Facts: c.Documents().SettlementFacts(x),
		To: settledTo(c, x.Settlement), At: c.TimeCell(x.CreatedAt), Pager: c.Pager(c.Page(), x.Count),
		Lines: ui.Table{Caption: c.Text("settlement.lines"), Empty: c.Empty("settlement.lines.none"), Heads: c.Columns(
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
	lines, err := x.AllLines(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(document.SettlementCSV(x, lines))
}

// settlementPDF exports the statement of a settlement as PDF.
func settlementPDF(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	x, err := c.Claims.StatementOf(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	lines, err := x.Lines(ctx, tx, db.Page{PerPage: document.MaxSettlementLines})
	if err != nil {
		return ui.View{}, err
	}
	return ui.Download(c.Documents().SettlementPDF(c.Session.Company.Name, x, lines, tx.Now()))
}
