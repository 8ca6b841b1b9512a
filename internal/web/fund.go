package web

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
)

// fundingPage is how one pay run is paid for, and how far that is.
type fundingPage struct {
	Payroll          payroll.Payroll
	Path             string
	Told             string // the state in one sentence, for those who listen
	State            string
	Open             bool // money is still asked for
	Total, Amount    string
	Plain            string // the amount, to be copied
	Rate             string
	Groups           []string // the address
	Asset, Network   string
	Bank             []fact // the account to transfer to, nil on a chain
	Reference        string
	Test             bool          // the network's coins are worth nothing
	Pay              template.URL  // for a wallet
	QR               template.HTML // the same, for a camera
	Until, Left      string
	UntilISO         string
	Ended            bool
	Deposits         table
	Simulates        bool
	Kinds, Durations []option
	Given            field
}

// showFunding is where somebody pays for a pay run: what to send where and until when, and what has come.
func showFunding(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	by := c.session.Principal()
	p, err := c.Payroll.Head(ctx, tx, by, c.r.PathValue("id"))
	if err != nil {
		return view{}, err
	}
	if !p.FromOutside() {
		return view{redirect: payrollPath(p.ID)}, nil
	}
	v := fundingPage{
		Payroll: p, Path: payrollPath(p.ID), State: c.word("payroll.funding", string(p.FundingState)), Open: p.State == payroll.Pending,
		Total: c.money(p.Total), Asset: string(p.FundingCurrency), Simulates: c.simulates() && c.session.Manages(),
	}
	v.Told = c.word("payroll.state", string(p.State)) + ": " + v.State
	kinds := []string{"exact", "under", "over", "late", "replaced", "reorged"}
	if p.FundingMethod == payroll.MethodBank {
		kinds = kinds[:3]
		t, ok, err := c.Payroll.Transfer(&p)
		if err != nil {
			return view{}, err
		}
		if v.Open = v.Open && ok; v.Open {
			v.Bank, v.Reference, v.Amount, v.Plain = c.bankFacts(t), t.Reference, c.money(t.Amount), t.Amount.String()
		}
	} else {
		v.Network, v.Test, v.Groups = networkName(p.Network), c.worthless(p.Network), groups(p.Address)
	}
	if q := p.Quote; q != nil && v.Open {
		v.Amount, v.Plain = c.money(q.Funding), q.Funding.String()
		v.Until, v.UntilISO = c.instant(q.ValidTo), q.ValidTo.UTC().Format(time.RFC3339)
		v.Rate = c.text("payroll.rate.is", string(q.Rate.Base()), c.number(q.Rate.String()), string(q.Rate.Quote()))
		pay := "bitcoin:" + p.Address + "?amount=" + url.QueryEscape(q.Funding.String())
		if n, ok := c.Payroll.Accounts.Network(p.Network); ok {
			pay = n.URI(p.Address, q.Funding)
		}
		v.Pay = template.URL(pay) //nolint:gosec // an address and an amount of ours
		if v.QR, err = qrCode(pay); err != nil {
			return view{}, err
		}
		locked := p.FundingState == payroll.FundingConfirming
		switch left := q.ValidTo.Sub(tx.Now()); {
		case locked: // the price is kept until the confirmations are there
		case left <= 0:
			v.Ended = true
			v.Told = c.text("fund.ended")
		case left <= time.Minute:
			v.Left = c.text("fund.left.minute")
			v.Told += ". " + v.Left
		case left <= 5*time.Minute:
			v.Left = c.text("fund.left", strconv.Itoa(int(left/time.Minute)+1))
			v.Told += ". " + c.text("fund.left.soon")
		default:
			v.Left = c.text("fund.left", strconv.Itoa(int(left/time.Minute)))
		}
	}
	if v.Deposits, err = c.depositTable(ctx, tx, p); err != nil {
		return view{}, err
	}
	if v.Simulates {
		for _, kind := range kinds {
			v.Kinds = append(v.Kinds, option{Value: kind, Label: c.text("simulate." + kind)})
		}
		v.Given = c.field(field{Name: "amount", Most: 30})
		for _, d := range clockSteps {
			v.Durations = append(v.Durations, option{Value: strconv.FormatInt(int64(d.time.Seconds()), 10), Label: c.text(d.key)})
		}
	}
	return view{page: "fund", title: c.text("fund.title", p.ID), wide: true, live: c.url(payrollPath(p.ID) + "/fund/live"), data: v}, nil
}

// fact is a figure with its name, to be copied as it stands.
type fact struct{ Name, Value string }

// bankFacts are where somebody transfers money to, and with which reference.
func (c *call) bankFacts(t payroll.Transfer) (all []fact) {
	iban, number := t.To.Numbers()
	for _, f := range []fact{
		{"fund.bank.holder", t.To.Name}, {"fund.bank.iban", strings.Join(groups(iban), " ")}, {"fund.bank.bic", t.To.BIC},
		{"fund.bank.routing", t.To.Routing}, {"fund.bank.number", number}, {"fund.bank.reference", t.Reference},
	} {
		if f.Value != "" {
			all = append(all, fact{c.text(f.Name), f.Value})
		}
	}
	return all
}

// networkName is a network as people call it.
func networkName(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// worthless says that a network's coins are.
func (c *call) worthless(network string) bool {
	if n, ok := c.Payroll.Accounts.Network(network); ok {
		return n.Test
	}
	return network != "bitcoin"
}

// groups cuts an address into pieces of four, which the eye can compare.
func groups(address string) (all []string) {
	for len(address) > 4 {
		all, address = append(all, address[:4]), address[4:]
	}
	return append(all, address)
}

// depositTable is the money that came in for a payroll, with its confirmations.
func (c *call) depositTable(ctx context.Context, tx *db.Tx, p payroll.Payroll) (table, error) {
	t := table{Caption: c.text("deposits.title"), Empty: c.text("deposits.none"), Heads: c.heads("deposits.seen", "payment.amount#", "payroll.status", "deposits.confirmations#", "deposits.tx")}
	all, err := deposit.ForObject(ctx, tx, p.CompanyID, p.ID)
	if err != nil {
		return t, err
	}
	for _, d := range all {
		state := cell{Text: c.word("deposit.state", string(d.State))}
		if !d.Timely {
			state.Lines = []cell{{Text: c.text("deposits.late")}}
		}
		confirmations := cell{Kind: "number"}
		if d.ByBank() {
			if d.State == deposit.Evicted {
				state.Text = c.text("deposit.state.taken_back")
			}
		} else {
			o, err := chain.GetOutput(ctx, tx, d.Chain, d.Outpoint)
			if err != nil {
				return t, err
			}
			confirmations.Text = c.text("deposits.of", c.count(min(o.Depth, d.Wanted)), c.count(d.Wanted))
		}
		t.Rows = append(t.Rows, []cell{c.at(d.FirstSeen), c.amount(d.Amount), state, confirmations, code(d.TxID)})
	}
	return t, nil
}

// refreshPrice asks for a price for what is still due, and applies money that came late.
func refreshPrice(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	p, _, err := c.Payroll.Refresh(ctx, tx, c.session.Principal(), c.r.PathValue("id"))
	return view{redirect: payrollPath(p.ID) + "/fund"}, shownAbove(err)
}

// shownAbove makes a refusal a problem of the form, which is then shown again. What is not there, or not now, has a page of its own.
func shownAbove(err error) error {
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound && f.Kind != apierr.Unavailable && len(f.Fields) == 0 {
		return f.At("body", "")
	}
	return err
}

// clockSteps are how far the sandbox's clock can be moved at once.
var clockSteps = []struct {
	key  string
	time time.Duration
}{{"clock.quarter", 15 * time.Minute}, {"clock.hour", time.Hour}, {"clock.day", 24 * time.Hour}, {"clock.month", 30 * 24 * time.Hour}}

// simulateDeposit pays a pay run on the simulated chain.
func simulateDeposit(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	id := c.r.PathValue("id")
	_, err := c.Sandbox.Deposit(ctx, c.session.Principal(), id, "", c.form.Get("kind"), strings.TrimSpace(c.form.Get("amount")))
	if f, ok := apierr.As(err); ok && f.Kind != apierr.NotFound && len(f.Fields) == 0 {
		err = f.At("body", "")
	}
	return view{redirect: payrollPath(id) + "/fund"}, err
}

// advanceClock moves the sandbox's clock forward, for everybody in it.
func advanceClock(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	for _, d := range clockSteps {
		if strconv.FormatInt(int64(d.time.Seconds()), 10) == c.form.Get("seconds") {
			_, err := c.Sandbox.Advance(ctx, d.time)
			return view{redirect: c.next()}, err
		}
	}
	return view{}, errForm
}
