package web

import (
	"context"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/wallet"
	"github.com/stipend/stipend/internal/webhook/delivery"
)

// How much the overview shows of each kind.
const (
	attentionShown = 5
	recentShown    = 10
)

type overviewPage struct {
	Company   string
	Balances  []balanceShown
	Attention []cell // what somebody should do, each with the way there
	Recent    table
	Charts    []chart
}

// balanceShown is what a company has in one currency.
type balanceShown struct{ Available, Reserved string }

// showOverview is where a company's people begin: what it has, what waits for them, and its latest pay runs.
func showOverview(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	p := overviewPage{Company: c.session.Company.Name}
	balances, err := wallet.Balances(ctx, tx, by, "")
	if err != nil {
		return view{}, err
	}
	for _, b := range balances {
		s := balanceShown{Available: c.money(b.Available)}
		if b.Reserved.Sign() != 0 {
			s.Reserved = c.money(b.Reserved)
		}
		p.Balances = append(p.Balances, s)
	}
	if p.Attention, err = c.attention(ctx, tx); err != nil {
		return view{}, err
	}
	recent, _, err := c.Payroll.List(ctx, tx, by, "", payroll.Filter{PerPage: recentShown})
	if err != nil {
		return view{}, err
	}
	if p.Charts, err = c.paidCharts(ctx, tx); err != nil {
		return view{}, err
	}
	p.Recent = c.payrollTable(c.text("overview.recent"), recent)
	return view{page: "overview", title: c.text("overview.title"), wide: true, data: p}, nil
}

// attention is what somebody should do, the most pressing first.
func (c *call) attention(ctx context.Context, tx *db.Tx) (all []cell, err error) {
	by := c.session.Principal()
	troubles, err := c.Payroll.Troubles(ctx, tx, by)
	if err != nil {
		return nil, err
	}
	for _, t := range troubles[:min(len(troubles), attentionShown)] {
		all = append(all, c.link(c.text("attention."+string(t.State), c.count(t.Payments), t.PayrollID), payrollPath(t.PayrollID)))
	}
	for _, state := range []payroll.State{payroll.OnHold, payroll.Pending} {
		some, total, err := c.Payroll.List(ctx, tx, by, "", payroll.Filter{Status: state, PerPage: attentionShown})
		if err != nil {
			return nil, err
		}
		for _, p := range some {
			it, err := c.waitsFor(ctx, tx, p)
			if err != nil {
				return nil, err
			}
			all = append(all, it)
		}
		if total > int64(len(some)) {
			all = append(all, c.link(c.text("attention.more."+string(state), c.count(total-int64(len(some)))), "/payrolls?status="+string(state)))
		}
	}
	wanted, err := destination.Corrections(ctx, tx, by.CompanyID, attentionShown)
	if err != nil {
		return nil, err
	}
	for _, d := range wanted {
		all = append(all, c.link(c.text("attention.correction", destinationName(d)), recipientPath(d.OwnerID)))
	}
	hooks, err := delivery.List(ctx, tx, by)
	if err != nil {
		return nil, err
	}
	for _, e := range hooks {
		if e.Status == delivery.DisabledAuto {
			all = append(all, c.link(c.text("attention.webhook", e.URL), webhookPath(e.ID)))
		}
	}
	return all, nil
}

// waitsFor says what a payroll waits for that has not been released.
func (c *call) waitsFor(ctx context.Context, tx *db.Tx, p payroll.Payroll) (cell, error) {
	to := payrollPath(p.ID)
	switch {
	case p.State == payroll.OnHold:
		return c.link(c.text("attention.on_hold", p.ID, c.word("reason", p.HoldReason)), to), nil
	case p.FundingState == payroll.FundingLate:
		return c.link(c.text("attention.late", p.ID), to), nil
	case p.FundingState == payroll.FundingConfirming:
		return c.link(c.text("attention.confirming", p.ID), to), nil
	}
	head, err := c.Payroll.Head(ctx, tx, c.session.Principal(), p.ID)
	if err != nil {
		return cell{}, err
	}
	if q := head.Quote; q != nil && tx.Now().Before(q.ValidTo) {
		return c.link(c.text("attention.fund", p.ID, c.money(q.Funding), c.instant(q.ValidTo)), to), nil
	}
	return c.link(c.text("attention.expired", p.ID), to), nil
}
