package company

import (
	"context"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/chain"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/receivable/deposit"
	"github.com/stipend/stipend/internal/web/ui"
)

// fundingPage shows how to fund a payroll, and the deposits so far.
type fundingPage struct {
	Payroll        payroll.Payroll
	Path           string
	Announcement   string // for screen readers
	State          string
	Open           bool // the payroll still needs money
	Total, Amount  string
	Plain          string // Amount without currency, for copying
	Rate           string
	Groups         []string // address
	Asset, Network string
	Bank           []fact // account details; nil if funded on a chain
	Reference      string
	Test           bool          // on a test network
	Pay            template.URL  // payment link
	QR             template.HTML // Pay as a QR code
	Until, Left    string
	UntilISO       string
	Ended          bool
	Deposits       ui.Table
	Simulates      bool
	Kind, Clock    ui.Field
	Given          ui.Field
	Volume, Fees   string
	Done           string // what to do now that no more money is needed
	Milestones     []ui.Cell
	Now            string // server time
}

// showFunding renders the funding page of a payroll.
func showFunding(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	p, err := c.Payroll.Head(ctx, tx, by, c.HTTP.PathValue("id"))
	if err != nil {
		return ui.View{}, err
	}
	if !p.FromOutside() {
		return ui.View{Redirect: payrollPath(p.ID)}, nil
	}
	v := fundingPage{
		Payroll: p, Path: payrollPath(p.ID), State: c.Word("payroll.funding", string(p.FundingState)),
		Open:   p.State == payroll.Pending,
		Volume: c.FormatMoney(p.Volume), Fees: c.FormatMoney(p.Fees), Milestones: milestones(c, p),
		Done: c.Text("payroll.means." + string(p.State)), Now: ui.FormatTimestamp(tx.Now()),
		Total: c.FormatMoney(p.Total), Asset: string(p.FundingCurrency), Simulates: c.CanSimulate() && c.Session.Manages(),
	}
	v.Announcement = c.Word("payroll.state", string(p.State)) + ". " + v.State
	kinds := []string{"exact", "under", "over", "late", "replaced", "reorged"}
	if p.FundingMethod == payroll.MethodBank {
		kinds = kinds[:3]
		t, ok, err := c.Payroll.Transfer(&p)
		if err != nil {
			return ui.View{}, err
		}
		if v.Open = v.Open && ok; v.Open {
			v.Bank, v.Reference, v.Amount, v.Plain = bankFacts(c, t), t.Reference, c.FormatMoney(t.Amount), t.Amount.String()
		}
	} else {
		v.Network, v.Test, v.Groups = networkName(p.Network), isTestNetwork(c, p.Network), ui.GroupsOfFour(p.Address)
	}
	if q := p.Quote; q != nil && v.Open {
		v.Amount, v.Plain = c.FormatMoney(q.Funding), q.Funding.String()
		v.Until, v.UntilISO = c.FormatTime(q.ValidTo), q.ValidTo.UTC().Format(time.RFC3339)
		v.Rate = c.Text("payroll.rate.is", string(q.Rate.Base()), c.FormatNumber(q.Rate.String()), string(q.Rate.Quote()))
		pay := "bitcoin:" + p.Address + "?amount=" + url.QueryEscape(q.Funding.String())
		if n, ok := c.Payroll.Accounts.Lookup(p.Network); ok {
			pay = n.URI(p.Address, q.Funding)
		}
		v.Pay = template.URL(pay) //nolint:gosec // an address and an amount of ours
		if v.QR, err = ui.QRCode(pay); err != nil {
			return ui.View{}, err
		}
		locked := p.FundingState == payroll.FundingConfirming
		switch left := q.ValidTo.Sub(tx.Now()); {
		case locked: // the quote no longer expires
		case left <= 0:
			v.Ended = true
			v.Announcement = c.Text("fund.ended")
		case left <= time.Minute:
			v.Left = c.Text("fund.left.minute")
			v.Announcement += ". " + v.Left
		case left <= 5*time.Minute:
			v.Left = minutesLeft(c, left+time.Minute)
			v.Announcement += ". " + c.Text("fund.left.soon")
		default:
			v.Left = minutesLeft(c, left)
		}
	}
	if v.Deposits, err = depositTable(ctx, c, tx, p); err != nil {
		return ui.View{}, err
	}
	if v.Simulates {
		v.Kind = ui.Field{Name: "kind", Type: "select", Label: c.Text("simulate.kind")}
		for _, kind := range kinds {
			v.Kind.Options = append(v.Kind.Options, ui.Option{Value: kind, Label: c.Text("simulate." + kind)})
		}
		v.Clock = ui.Field{Name: "seconds", Type: "select", Label: c.Text("simulate.clock")}
		v.Given = c.Field(ui.Field{Name: "amount", MaxLength: 30})
		for _, d := range clockSteps {
			v.Clock.Options = append(v.Clock.Options, ui.Option{Value: strconv.FormatInt(int64(d.time.Seconds()), 10),
				Label: c.Text(d.key)})
		}
	}
	return ui.View{Template: "fund", Title: c.Text("fund.title", payrollName(c, p)), State: payrollState(c, p),
		Crumbs:   append(payrollCrumbs(c), c.LinkCell(payrollName(c, p), payrollPath(p.ID))),
		LivePath: c.URL(payrollPath(p.ID) + "/fund/live"), Data: v}, nil
}

// fact is a labeled value.
type fact struct{ Name, Value string }

// bankFacts returns the details of an incoming bank transfer.
func bankFacts(c *ui.Request, t payroll.Transfer) (all []fact) {
	iban, number := t.To.Identifiers()
	for _, f := range []fact{
		{"fund.bank.holder", t.To.Name}, {"fund.bank.iban", strings.Join(ui.GroupsOfFour(iban), " ")},
		{"fund.bank.bic", t.To.BIC},
		{"fund.bank.routing", t.To.Routing}, {"fund.bank.number", number}, {"fund.bank.reference", t.Reference},
	} {
		if f.Value != "" {
			all = append(all, fact{c.Text(f.Name), f.Value})
		}
	}
	return all
}

// networkName returns the display name of a network.
func networkName(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// isTestNetwork reports whether a network is a test network.
func isTestNetwork(c *ui.Request, network string) bool {
	if n, ok := c.Payroll.Accounts.Lookup(network); ok {
		return n.Test
	}
	return network != "bitcoin"
}

// depositTable lists the deposits for a payroll.
func depositTable(ctx context.Context, c *ui.Request, tx *db.Tx, p payroll.Payroll) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("deposits.title"), Empty: c.Empty("deposits.none"),
		Heads: c.Columns("deposits.seen|a", "payment.amount#|b", "payroll.status|c", "deposits.confirmations#|d",
			"deposits.tx|e")}
	all, err := deposit.ForObject(ctx, tx, p.CompanyID, p.ID)
	if err != nil {
		return t, err
	}
	for _, d := range all {
		state := c.StateCell("deposit.state", string(d.State))
		if !d.OnTime {
			state.Lines = []ui.Cell{{Text: c.Text("deposits.late")}}
		}
		confirmations := ui.Cell{Kind: "number"}
		if d.ByBank() {
			if d.State == deposit.Evicted {
				state.Text = c.Text("deposit.state.taken_back")
			}
		} else {
			o, err := chain.GetOutput(ctx, tx, d.Chain, d.Outpoint)
			if err != nil {
				return t, err
			}
			confirmations.Text = c.Text("deposits.of", c.FormatCount(min(o.Depth, d.Wanted)), c.FormatCount(d.Wanted))
		}
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(d.FirstSeen), c.AmountCell(d.Amount), state, confirmations,
			ui.CodeCell(d.TxID)})
	}
	return t, nil
}

// refreshQuote requests a new quote for the amount still due. Late deposits are applied.
func refreshQuote(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	p, _, err := c.Payroll.Refresh(ctx, tx, c.Session.Principal(), c.HTTP.PathValue("id"))
	return ui.View{Redirect: payrollPath(p.ID) + "/fund"}, ui.FormError(err)
}

// clockSteps are the durations by which users can advance the sandbox clock.
var clockSteps = []struct {
	key  string
	time time.Duration
}{{"clock.quarter", 15 * time.Minute}, {"clock.hour", time.Hour}, {"clock.day", 24 * time.Hour},
	{"clock.month", 30 * 24 * time.Hour}}

// simulateDeposit funds a payroll on the simulated chain.
func simulateDeposit(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	_, err := c.Sandbox.Deposit(ctx, c.Session.Principal(), id, "", "", c.Form.Get("kind"),
		strings.TrimSpace(c.Form.Get("amount")))
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound && len(f.Fields) == 0 {
		err = f.At("body", "")
	}
	return ui.View{Redirect: payrollPath(id) + "/fund"}, err
}

// advanceClock advances the clock of the whole sandbox.
func advanceClock(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	for _, d := range clockSteps {
		if strconv.FormatInt(int64(d.time.Seconds()), 10) == c.Form.Get("seconds") {
			_, err := c.Sandbox.Advance(ctx, d.time)
			return ui.View{Redirect: c.NextPath()}, err
		}
	}
	return ui.View{}, ui.ErrForm
}

// minutesLeft returns the whole minutes of a duration in the reader's language.
func minutesLeft(c *ui.Request, left time.Duration) string {
	n := int64(left / time.Minute)
	return c.Plural("fund.left", n, c.FormatCount(n))
}
