package company

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// Limits of the lists on the overview.
const (
	maxAttention = 5
	maxRecent    = 10
)

type overviewPage struct {
	Company   string
	Balances  []balanceRow
	Attention []ui.Cell // tasks, each with a link
	Recent    ui.Table
	Charts    []ui.Chart
}

// balanceRow is a balance in one currency.
type balanceRow struct{ Available, Reserved string }

// showOverview renders the start page of a company.
func showOverview(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	p := overviewPage{Company: c.Session.Company.Name}
	balances, err := wallet.Balances(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	for _, b := range balances {
		s := balanceRow{Available: c.FormatMoney(b.Available)}
		if b.Reserved.Sign() != 0 {
			s.Reserved = c.FormatMoney(b.Reserved)
		}
		p.Balances = append(p.Balances, s)
	}
	if p.Attention, err = attention(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	recent, _, err := c.Payroll.List(ctx, tx, by, "", payroll.Filter{PerPage: maxRecent})
	if err != nil {
		return ui.View{}, err
	}
	if p.Charts, err = c.PaidCharts(ctx, tx); err != nil {
		return ui.View{}, err
	}
	p.Recent = payrollTable(c, c.Text("overview.recent"), recent)
	return ui.View{Template: "overview", Title: c.Text("overview.title"), Wide: true, Data: p}, nil
}

// attention lists the tasks of the company's members, the most urgent first.
func attention(ctx context.Context, c *ui.Request, tx *db.Tx) (all []ui.Cell, err error) {
	by := c.Session.Principal()
	troubles, err := c.Payroll.Issues(ctx, tx, by)
	if err != nil {
		return nil, err
	}
	for _, t := range troubles[:min(len(troubles), maxAttention)] {
		all = append(all, c.LinkCell(c.Text("attention."+string(t.State), c.FormatCount(t.Payments), t.PayrollID),
			payrollPath(t.PayrollID)))
	}
	for _, state := range []payroll.State{payroll.OnHold, payroll.Pending} {
		some, total, err := c.Payroll.List(ctx, tx, by, "", payroll.Filter{Status: state, PerPage: maxAttention})
		if err != nil {
			return nil, err
		}
		for _, p := range some {
			it, err := pendingReason(ctx, c, tx, p)
			if err != nil {
				return nil, err
			}
			all = append(all, it)
		}
		if total > int64(len(some)) {
			all = append(all, c.LinkCell(c.Text("attention.more."+string(state), c.FormatCount(total-int64(len(some)))),
				"/payrolls?status="+string(state)))
		}
	}
	wanted, err := destination.Corrections(ctx, tx, by.CompanyID, maxAttention)
	if err != nil {
		return nil, err
	}
	for _, d := range wanted {
		all = append(all, c.LinkCell(c.Text("attention.correction", destinationName(d)), recipientPath(d.OwnerID)))
	}
	hooks, err := delivery.List(ctx, tx, by)
	if err != nil {
		return nil, err
	}
	for _, e := range hooks {
		if e.Status == delivery.DisabledAuto {
			all = append(all, c.LinkCell(c.Text("attention.webhook", e.URL), webhookPath(e.ID)))
		}
	}
	return all, nil
}

// pendingReason describes why a payroll has not been released yet.
func pendingReason(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll) (ui.Cell, error) {
	to := payrollPath(p.ID)
	switch {
	case p.State == payroll.OnHold:
		return c.LinkCell(c.Text("attention.on_hold", p.ID, c.Word("reason", p.HoldReason)), to), nil
	case p.FundingState == payroll.FundingLate:
		return c.LinkCell(c.Text("attention.late", p.ID), to), nil
	case p.FundingState == payroll.FundingConfirming:
		return c.LinkCell(c.Text("attention.confirming", p.ID), to), nil
	}
	head, err := c.Payroll.Head(ctx, tx, c.Session.Principal(), p.ID)
	if err != nil {
		return ui.Cell{}, err
	}
	if q := head.Quote; q != nil && tx.Now().Before(q.ValidTo) {
		return c.LinkCell(c.Text("attention.fund", p.ID, c.FormatMoney(q.Funding), c.FormatTime(q.ValidTo)), to), nil
	}
	return c.LinkCell(c.Text("attention.expired", p.ID), to), nil
}
