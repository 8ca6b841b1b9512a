package company

import (
	"context"

	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/invoice"
	"github.com/stipend/stipend/internal/kyc"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/payroll/schedule"
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
	Balances  []balanceRow
	Attention []ui.Task
	Setup     *setup // nil if everything is done
	Upcoming  []upcoming
	Recent    ui.Table
	Fresh     bool // the company has no payroll and no balance yet, so Setup comes first
	Charts    []ui.Chart
	Paused    bool // the operator has paused payouts
}

// setup is the list of what a company does once, before it pays people.
type setup struct {
	Progress ui.Progress
	Steps    []setupStep
}

type setupStep struct {
	Text, Why, Path string
	Done            bool
}

// upcoming is a payroll that a schedule creates next, or the invoices that wait for payment.
type upcoming struct{ Icon, Text, Detail, Path string }

// balanceRow is a balance in one currency.
type balanceRow struct{ Available, Reserved, Claims string }

// showOverview renders the start page of a company.
func showOverview(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	p := overviewPage{}
	balances, err := wallet.Balances(ctx, tx, by, "")
	if err != nil {
		return ui.View{}, err
	}
	for _, b := range balances {
		s := balanceRow{Available: c.FormatMoney(b.Available)}
		if b.Reserved.Sign() != 0 {
			s.Reserved = c.FormatMoney(b.Reserved)
		}
		if b.Claims.Sign() != 0 {
			s.Claims = c.FormatMoney(b.Claims)
		}
		p.Balances = append(p.Balances, s)
	}
	if p.Attention, err = attention(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	recent, _, err := c.Payroll.List(ctx, tx, by, "", payroll.Filter{Page: db.Page{PerPage: maxRecent}})
	if err != nil {
		return ui.View{}, err
	}
	why, err := payout.Paused(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	p.Paused = why != ""
	if p.Charts, err = c.PaidCharts(ctx, tx); err != nil {
		return ui.View{}, err
	}
	p.Recent = payrollTable(c, c.Text("overview.recent"), recent)
	if p.Setup, err = setupOf(ctx, c, tx, len(recent) > 0); err != nil {
		return ui.View{}, err
	}
	p.Fresh = p.Setup != nil && len(recent) == 0 && len(balances) == 0
	if p.Upcoming, err = upcomingOf(ctx, c, tx); err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "overview", Title: c.Text("overview.title"), Data: p}, nil
}

// setupOf returns what the company still has to do before it pays people or is paid, or nil if everything is done or
// the user may not do it.
func setupOf(ctx context.Context, c *ui.Request, tx *db.Tx, hasPayroll bool) (*setup, error) {
	if !c.Session.Manages() {
		return nil, nil
	}
	company := c.Session.Company.ID
	people, err := payee.List(ctx, tx, c.Session.Principal(), payee.ListParams{Page: db.Page{PerPage: 1}})
	if err != nil {
		return nil, err
	}
	members, err := auth.Members(ctx, tx, company)
	if err != nil {
		return nil, err
	}
	s := setup{Steps: []setupStep{
		{Text: c.Text("setup.person"), Why: c.Text("setup.person.why"), Path: "/recipients/new", Done: people.Total > 0},
		{Text: c.Text("setup.payroll"), Why: c.Text("setup.payroll.why"), Path: "/payrolls/new", Done: hasPayroll},
	}}
	if !hasPayroll {
		_, claims, err := c.Claims.List(ctx, tx, c.Session.Principal(), "", claim.Filter{Page: db.Page{PerPage: 1}})
		if err != nil {
			return nil, err
		}
		s.Steps = append(s.Steps, setupStep{Text: c.Text("setup.claim"), Why: c.Text("setup.claim.why"), Path: claimsPath,
			Done: claims > 0})
	}
	if c.RequiresFactor(company) {
		codes, keys, err := c.FactorMethods(ctx, tx)
		if err != nil {
			return nil, err
		}
		s.Steps = append(s.Steps, setupStep{Text: c.Text("setup.factor"), Why: c.Text("setup.factor.why"), Path: "/account",
			Done: codes || keys})
	}
	if c.KYC != nil {
		o, err := c.KYC.OnboardingOf(ctx, tx, company)
		if err != nil {
			return nil, err
		}
		s.Steps = append(s.Steps, setupStep{Text: c.Text("setup.verify"), Why: c.Text("setup.verify.why"),
			Path: ui.CompanyPath, Done: o.State == kyc.Approved})
	}
	if c.Session.Administers() {
		s.Steps = append(s.Steps, setupStep{Text: c.Text("setup.member"), Why: c.Text("setup.member.why"),
			Path: "/settings/members", Done: len(members) > 1})
	}
	done := 0
	for _, step := range s.Steps {
		if step.Done {
			done++
		}
	}
	if done == len(s.Steps) {
		return nil, nil
	}
	s.Progress = c.NewProgress(c.Text("setup.progress", c.FormatCount(int64(done)), c.FormatCount(int64(len(s.Steps)))),
		[]ui.Segment{{Kind: "brand", Number: int64(done), Units: int64(done)},
			{Kind: "rest", Number: int64(len(s.Steps) - done), Units: int64(len(s.Steps) - done)}})
	return &s, nil
}

// upcomingOf returns the next payrolls of the company's schedules and the invoices that wait for payment.
func upcomingOf(ctx context.Context, c *ui.Request, tx *db.Tx) (all []upcoming, err error) {
	by := c.Session.Principal()
	schedules, _, err := schedule.List(ctx, tx, by, "", db.Page{PerPage: maxAttention})
	if err != nil {
		return nil, err
	}
	for _, n := range schedules {
		if !n.Next.IsZero() {
			all = append(all, upcoming{Icon: "calendar", Text: n.Name, Path: c.URL(schedulePath(n.ID)),
				Detail: c.Plural("upcoming.payroll", int64(len(n.ToPay)), c.FormatDate(n.Calendar.PayDate(n.Next)),
					c.FormatCount(int64(len(n.ToPay))))})
		}
	}
	for _, state := range []invoice.Status{invoice.Overdue, invoice.Sent} {
		_, total, err := invoice.OfCompany(ctx, tx, by, invoice.Filter{Status: state, Page: db.Page{PerPage: 1}})
		if err != nil {
			return nil, err
		}
		if total > 0 {
			all = append(all, upcoming{Icon: "receipt", Text: c.Text("upcoming.invoices." + string(state)),
				Detail: c.FormatCount(total), Path: c.URL("/invoices?status=" + string(state))})
		}
	}
	return all, nil
}

// attention lists the tasks of the company's members, the most urgent first.
func attention(ctx context.Context, c *ui.Request, tx *db.Tx) (all []ui.Task, err error) {
	by := c.Session.Principal()
	troubles, err := c.Payroll.Issues(ctx, tx, by)
	if err != nil {
		return nil, err
	}
	for _, t := range troubles[:min(len(troubles), maxAttention)] {
		p, err := c.Payroll.Head(ctx, tx, by, t.PayrollID)
		if err != nil {
			return nil, err
		}
		all = append(all, c.Task("red", "circle-alert", c.Plural("attention."+string(t.State), t.Payments,
			c.FormatCount(t.Payments), payrollName(c, p)), "attention.fix", payrollPath(t.PayrollID)))
	}
	forWithdrawals, err := withdrawalTasks(ctx, c, tx, maxAttention)
	if err != nil {
		return nil, err
	}
	proposed, err := proposalTasks(ctx, c, tx, maxAttention)
	if err != nil {
		return nil, err
	}
	all = append(append(all, forWithdrawals...), proposed...)
	for _, state := range []payroll.State{payroll.OnHold, payroll.Pending} {
		some, total, err := c.Payroll.List(ctx, tx, by, "", payroll.Filter{Status: state,
			Page: db.Page{PerPage: maxAttention}})
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
			all = append(all, c.Task("gray", "ellipsis", c.Plural("attention.more."+string(state), total-int64(len(some)),
				c.FormatCount(total-int64(len(some)))), "attention.view", "/payrolls?status="+string(state)))
		}
	}
	ofClaims, err := claimTasks(ctx, c, tx)
	if err != nil {
		return nil, err
	}
	all = append(all, ofClaims...)
	wanted, err := destination.Corrections(ctx, tx, by.CompanyID, maxAttention)
	if err != nil {
		return nil, err
	}
	for _, d := range wanted {
		key := "attention.correction"
		if !d.Correction.Disputed.IsZero() {
			key = "attention.correction.disputed"
		}
		all = append(all, c.Task("amber", "landmark", c.Text(key, DestinationName(d)), "attention.view",
			recipientPath(d.OwnerID)))
	}
	hooks, err := delivery.List(ctx, tx, by)
	if err != nil {
		return nil, err
	}
	for _, e := range hooks {
		if e.Status == delivery.DisabledAuto {
			all = append(all, c.Task("red", "webhook", c.Text("attention.webhook", e.URL), "attention.view", webhookPath(e.ID)))
		}
	}
	return all, nil
}

// pendingReason describes why a payroll has not been released yet.
func pendingReason(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll) (ui.Task, error) {
	to, name := payrollPath(p.ID), payrollName(c, p)
	switch {
	case p.State == payroll.OnHold && p.HoldReason == payroll.ReasonApproval:
		return c.Task("violet", "shield-check", c.Text("attention.on_hold", name, c.Word("reason", p.HoldReason)),
			"attention.review", to), nil
	case p.State == payroll.OnHold:
		return c.Task("amber", "circle-pause", c.Text("attention.on_hold", name, c.Word("reason", p.HoldReason)),
			"attention.view", to), nil
	case p.FundingState == payroll.FundingLate:
		return c.Task("amber", "clock", c.Text("attention.late", name), "attention.review", to+"/fund"), nil
	case p.FundingState == payroll.FundingConfirming:
		return c.Task("blue", "loader", c.Text("attention.confirming", name), "attention.view", to), nil
	}
	head, err := c.Payroll.Head(ctx, tx, c.Session.Principal(), p.ID)
	if err != nil {
		return ui.Task{}, err
	}
	if q := head.Quote; q != nil && tx.Now().Before(q.ValidTo) {
		return c.Task("amber", "hourglass", c.Text("attention.fund", name, c.FormatMoney(q.Funding), c.FormatTime(q.ValidTo)),
			"attention.fund.do", to+"/fund"), nil
	}
	return c.Task("amber", "clock", c.Text("attention.expired", name), "attention.fund.do", to+"/fund"), nil
}
