package web

import (
	"context"
	"html/template"
	"strconv"
	"strings"
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
	Worth    string // the same in the merchant's currency
	Groups   []string
	Pay      template.URL  // for a wallet
	QR       template.HTML // the same, for a camera
	Test     bool          // the network's coins are worth nothing
	Until    string
	UntilISO string
	Left     string
	Received string
	Back     []cell // money that goes back to the payer, or could
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
		p.Amount, p.Plain, p.Worth = c.money(open.Rest), open.Rest.String(), c.money(open.Due)
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
		p.Rate = c.text("checkout.rate.is", string(q.Rate.Base()), c.number(q.Rate.String()), string(q.Rate.Quote()), c.instant(q.ValidFrom))
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
	p.Back = c.goesBack(open)
	return view{
		page: "checkout", title: c.text("checkout.title", open.Merchant), live: c.url(checkoutPath(c, "/live")), data: p,
		frames: open.Origins, bare: p.Embedded,
	}, nil
}

// goesBack says what a payer gets back, or could have: the transaction stands below it.
func (c *call) goesBack(open claim.Checkout) (all []cell) {
	waits := open.Refunding // what is owed is spoken of already
	for _, r := range open.Refunds {
		waits = waits || r.State == claim.RefundOffered || r.State == claim.RefundAccepted
		switch r.State {
		case claim.RefundOffered:
			all = append(all, cell{Text: c.text("checkout.offered", c.money(r.Amount))})
		case claim.RefundAccepted:
			all = append(all, cell{Text: c.text("checkout.sending", c.money(r.Net()), r.Address)})
		case claim.RefundPaid:
			all = append(all, cell{Text: c.text("checkout.sent", c.money(r.Net()), r.Address), Lines: []cell{code(r.TxHash)}})
		case claim.RefundWithdrawn: // as if it had not been
		}
	}
	if excess := open.Refundable(); excess.Sign() > 0 && !waits {
		all = append(all, cell{Text: c.text("checkout.owed", c.money(excess), open.Merchant)})
	}
	return all
}

// refundPage is where a payer says where money goes back to.
type refundPage struct {
	claim.Refund
	Merchant         string
	Path             string
	Yours, Fee, Gets string
	Until, UntilISO  string
	Groups           []string
	Where            field
}

// showRefund asks where to.
func showRefund(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r, _, err := c.Claims.Offer(ctx, tx, c.r.PathValue("claim"), c.r.PathValue("token"))
	if err != nil {
		return view{}, err
	}
	return c.refund(ctx, tx, "refund", r)
}

// checkRefund shows the address once more, with what it gets.
func checkRefund(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r, err := c.Claims.Check(ctx, tx, c.r.PathValue("claim"), c.r.PathValue("token"), strings.TrimSpace(c.form.Get("address")))
	if err != nil {
		return view{}, shownAbove(err)
	}
	return c.refund(ctx, tx, "refund_check", r)
}

func (c *call) refund(ctx context.Context, tx *db.Tx, page string, r claim.Refund) (view, error) {
	open, err := c.Claims.Checkout(ctx, tx, r.ClaimID)
	if err != nil {
		return view{}, err
	}
	return view{page: page, title: c.text(strings.ReplaceAll(page, "_", ".") + ".title"), data: refundPage{
		Refund: r, Merchant: open.Merchant, Path: "/pay/" + r.ClaimID + "/refund/" + c.r.PathValue("token"),
		Yours: c.money(r.Amount), Fee: c.money(r.Fee), Gets: c.money(r.Net()), Groups: groups(r.Address),
		Until: c.instant(r.ExpiresAt), UntilISO: stamp(r.ExpiresAt), Where: c.field(field{Name: "address", Required: true, Most: 100}),
	}}, nil
}

// acceptRefund takes the address. The page of the claim then says how far the money is.
func acceptRefund(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r, err := c.Claims.Accept(ctx, tx, c.r.PathValue("claim"), c.r.PathValue("token"), strings.TrimSpace(c.form.Get("address")))
	return view{redirect: "/pay/" + r.ClaimID}, shownAbove(err)
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
		tx := code(p.TxID)
		tx.Copy, tx.Copied, tx.ID = c.text("checkout.copy.tx"), c.text("checkout.copied.tx"), "copy-"+p.ID
		t.Rows = append(t.Rows, []cell{c.at(p.FirstSeen), c.amount(p.Amount), state, tx})
	}
	return t
}

// renewCheckout gets the payer a new price.
func renewCheckout(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	_, err := c.Claims.Renew(ctx, tx, c.r.PathValue("claim"))
	return view{redirect: checkoutPath(c, "")}, shownAbove(err)
}
