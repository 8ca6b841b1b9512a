package web

import (
	"context"
	"html/template"
	"strconv"
	"time"

	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
)

// A checkout is open to whoever has its link, on a page of its own or within one of the merchant's (?embed). Nobody signs in and
// no cookie is set. The merchant's part in it is a name, what is paid for, and where to go afterwards.

// checkoutPage is what a payer sees of a claim, in each state of it.
type checkoutPage struct {
	claim.Checkout
	Path     string // of the page
	Renew    string // where a new price is asked for
	Now      string // the service's own
	Embedded bool
	Status   string // in a word or two
	Told     string // for those who listen: with what cannot be missed
	Means    string // what the payer should know, or do now
	Price    string // in the merchant's currency
	Rate     string
	Sends    bool // money can be sent now
	Part     bool // of it, some came already
	Renews   bool // a new price can be had
	Done     bool // this is the receipt
	Amount   string
	Plain    string // the same, to be copied
	Groups   []string
	Pay      template.URL  // for a wallet
	QR       template.HTML // the same, for a camera
	Test     bool          // the network's coins are worth nothing
	Until    string
	UntilISO string
	Left     string
	Received string
	Excess   string // owed to the payer
	At       cell   // when it was paid
	Payments table
}

// showCheckout shows a claim to its payer.
func showCheckout(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	open, err := c.Claims.Checkout(ctx, tx, c.r.PathValue("claim"))
	if err != nil {
		return view{}, err
	}
	p := checkoutPage{
		Checkout: open, Embedded: c.embedded(), Price: c.money(open.Amount), Groups: groups(open.Address), Test: open.Network != "bitcoin",
		Payments: c.incomingTable(open.Payments), Path: c.url(checkoutPath(c, "")), Renew: c.url(checkoutPath(c, "/price")), Now: stamp(tx.Now()),
		Done: open.State == claim.Paid,
	}
	q, state := open.Quote, string(open.State)
	left := q.ValidTo.Sub(tx.Now())
	switch {
	case open.Asks() && left > 0:
		p.Sends, p.Part = true, open.State == claim.PartiallyPaid
		p.Amount, p.Plain = c.money(open.Rest), open.Rest.String()
		p.Until, p.UntilISO, p.Left = c.instant(q.ValidTo), stamp(q.ValidTo), c.left(left)
		link := open.Link()
		p.Pay = template.URL(link) //nolint:gosec // an address, an amount and an invoice of ours
		if p.QR, err = qrCode(link); err != nil {
			return view{}, err
		}
	case open.Waits():
		state = "checking"
	case open.Refunding && open.State != claim.Refunded:
		state = "refunding"
	case open.State == claim.Expired || open.State == claim.Underpaid || open.State == claim.Invalid:
		p.Renews = true
	}
	if !q.Rate.IsZero() && q.Rate.Base() != q.Rate.Quote() {
		p.Rate = c.text("checkout.rate.is", string(q.Rate.Base()), c.number(q.Rate.String()), string(q.Rate.Quote()))
	}
	p.Status, p.Means = c.text("checkout.state."+state), c.text("checkout.means."+state, open.Merchant)
	p.Told = p.Status + ". " + p.Means
	switch {
	case p.Sends && left <= time.Minute:
		p.Told = p.Status + ". " + p.Left
	case p.Sends && left <= 5*time.Minute:
		p.Told = p.Status + ". " + c.text("fund.left.soon")
	}
	for _, one := range open.Payments {
		if p.Done && one.TxID == open.TxHash {
			p.At = c.at(one.FirstSeen)
		}
	}
	if received := open.Received(); received.Sign() > 0 {
		p.Received = c.money(received)
	}
	if excess := open.Refundable(); excess.Sign() > 0 && !open.Refunding {
		p.Excess = c.text("checkout.owed", c.money(excess), open.Merchant)
	}
	return view{
		page: "checkout", title: c.text("checkout.title", open.Merchant), live: c.url(checkoutPath(c, "/live")), data: p,
		frames: open.Origins, bare: p.Embedded,
	}, nil
}

// embedded says that the page is to stand within another one: without a head of its own.
func (c *call) embedded() bool { return c.r.URL.Query().Has("embed") }

// checkoutPath is a page of the checkout, within another page or not as this one is.
func checkoutPath(c *call, below string) string {
	path := "/pay/" + c.r.PathValue("claim") + below
	if c.embedded() {
		path += "?embed=1"
	}
	return path
}

// left is how long a price holds still, in minutes.
func (c *call) left(d time.Duration) string {
	switch {
	case d <= time.Minute:
		return c.text("fund.left.minute")
	case d <= 5*time.Minute:
		return c.text("fund.left", strconv.Itoa(int(d/time.Minute)+1))
	}
	return c.text("fund.left", strconv.Itoa(int(d/time.Minute)))
}

// incomingTable is what came for a claim, with its confirmations.
func (c *call) incomingTable(all []claim.Payment) table {
	t := table{Caption: c.text("checkout.payments"), Heads: c.heads("deposits.seen", "payment.amount#", "payroll.status", "deposits.tx")}
	for _, p := range all {
		state := cell{Text: c.word("deposit.state", string(p.State))}
		if p.State.Live() {
			state.Lines = append(state.Lines, cell{Text: c.text("deposits.of", c.count(min(p.Confirmations, p.Wanted)), c.count(p.Wanted))})
		}
		if !p.Timely {
			state.Lines = append(state.Lines, cell{Text: c.text("deposits.late")})
		}
		t.Rows = append(t.Rows, []cell{c.at(p.FirstSeen), c.amount(p.Amount), state, code(p.TxID)})
	}
	return t
}

// renewCheckout gets the payer a new price.
func renewCheckout(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := c.Claims.Renew(ctx, tx, c.r.PathValue("claim"))
	return view{redirect: checkoutPath(c, "")}, shownAbove(err)
}
