// Package merchant serves the checkout, on which the payer of a claim pays it or asks for a refund.
//
// Anyone with the link can open a checkout, on its own page or embedded in the merchant's (?embed). It needs no
// sign-in and sets no cookies. The merchant determines its name, the description and the return URL.
package merchant

import (
	"context"
	"errors"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/branding"
	"github.com/stipend/stipend/internal/chain/network"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/lightning"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/receivable/quote"
	"github.com/stipend/stipend/internal/web/ui"
)

// checkoutPage shows a claim to its payer.
type checkoutPage struct {
	claim.Checkout
	Path         string // of this page
	Renew        string // form action that requests a new quote
	Now          string // server time
	Embedded     bool
	Status       string // such as "Paid"
	Announcement string // for screen readers
	Means        string // explains the status and what to do
	Price        string // in the merchant's currency
	Rate         string
	Sends        bool // the payer can pay now
	Part         bool // part of the amount was received
	Renews       bool // the payer can request a new quote
	Done         bool // this is the receipt
	Amount       string
	Plain        string // Amount without currency, for copying
	Worth        string // Amount in the merchant's currency
	Groups       []string
	Pay          template.URL      // payment link
	Call         *claim.WalletCall // payment that a wallet in the browser sends; nil if none can
	QR           template.HTML     // Pay as a QR code
	Methods      []payMethod       // assets to choose from; empty if there is one
	Networks     []payMethod       // networks of the chosen asset to choose from; empty if there is one
	Address      string            // where to pay; "" over Lightning
	AddressLabel string
	Only         string // warns about other assets and networks; "" for bitcoin
	Invoice      string
	Network      string
	Test         bool // on a test network
	Until        string
	UntilISO     string
	Left         string
	Received     string
	Back         []ui.Cell // refunds, pending or possible
	At           ui.Cell   // time of payment
	Payments     ui.Table
	Items        ui.Table
	Redirect     string  // URL to which an open page redirects once the claim is paid, or ""
	Look         ui.Cell // tone and icon of the status
	Next         string  // form for the next sale; "" if the payer opened the checkout
}

// payMethod is a choice of the payer.
type payMethod struct {
	Label, URL string
	Current    bool
}

// choose sets the way to pay that the URL names (?pay), the first one by default, and the others to choose from.
func (p *checkoutPage) choose(c *ui.Request) error {
	offers := p.Offers
	at := max(0, slices.IndexFunc(offers, func(o claim.Offer) bool { return o.Key() == c.HTTP.URL.Query().Get("pay") }))
	chosen := offers[at]
	asset := chosen.Amount.Asset()
	label := func(o claim.Offer) string {
		switch {
		case o.Lightning():
			return "Lightning"
		case o.Amount.Asset() == money.BTC:
			return "Bitcoin"
		}
		return string(o.Amount.Asset())
	}
	for _, o := range offers {
		same := label(o) == label(chosen)
		one := payMethod{Label: label(o), URL: c.URL(withOffer(c, "", o.Key())), Current: same}
		if !slices.ContainsFunc(p.Methods, func(m payMethod) bool { return m.Label == one.Label }) {
			p.Methods = append(p.Methods, one)
		}
		if same {
			one.Label, one.Current = networkTitle(o.Network), o.Key() == chosen.Key()
			p.Networks = append(p.Networks, one)
		}
	}
	if len(p.Methods) == 1 {
		p.Methods = nil
	}
	if len(p.Networks) == 1 {
		p.Networks = nil
	}
	p.Amount, p.Plain = c.FormatMoney(chosen.Amount), chosen.Amount.String()
	p.Address, p.Groups = chosen.Quote.Address, ui.GroupsOfFour(chosen.Quote.Address)
	p.Invoice, p.Network, p.Test = chosen.Invoice, chosen.Network, chosen.Network != "bitcoin"
	p.AddressLabel = c.Text("checkout.address")
	if n, ok := c.Claims.Accounts.Lookup(chosen.Network); ok {
		p.Test = n.Test
		p.AddressLabel = c.Text("checkout.address.on", networkTitle(n.Name))
		p.Only = c.Text("checkout.only", string(asset), networkTitle(n.Name))
	}
	if chosen.Lightning() {
		p.Address, p.Network = "", chosen.Quote.Network
	}
	call, sends, err := c.Claims.WalletCall(chosen)
	if err != nil {
		return err
	}
	if sends {
		p.Call = &call
	}
	p.Rate = rate(c, chosen.Quote)
	p.Pay = template.URL(chosen.URI) //nolint:gosec // an address, an amount and an invoice of ours
	p.QR, err = ui.QRCode(chosen.URI)
	return err
}

// rate describes the rate of a quote, "" if nothing is exchanged.
func rate(c *ui.Request, q quote.Quote) string {
	if q.Rate.IsZero() || q.Rate.Base() == q.Rate.Quote() {
		return ""
	}
	return c.Text("checkout.rate.is", string(q.Rate.Base()), c.FormatNumber(q.Rate.String()), string(q.Rate.Quote()),
		c.FormatTime(q.ValidFrom))
}

// networkTitle returns the name of a network that people see.
func networkTitle(name string) string {
	if n, err := network.Lookup(name); err == nil {
		return n.Title
	}
	return name
}

// showCheckout renders the checkout.
func showCheckout(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	open, err := c.Claims.Checkout(ctx, tx, c.HTTP.PathValue("claim"))
	if err != nil {
		return ui.View{}, err
	}
	c.OfferLanguages(open.Brand.Languages)
	p := checkoutPage{
		Checkout: open, Embedded: embedded(c), Price: c.FormatMoney(open.Amount), Rate: rate(c, *open.Quote),
		Payments: incomingTable(c, open.Payments), Path: c.URL(checkoutPath(c, "")), Renew: c.URL(checkoutPath(c, "/price")),
		Now:  ui.FormatTimestamp(tx.Now()),
		Done: open.State == claim.Paid,
	}
	q, state := open.Quote, string(open.State)
	left := q.ValidTo.Sub(tx.Now())
	switch {
	case len(open.Offers) > 0 && left > 0:
		p.Sends, p.Part, p.Worth = true, open.State == claim.PartiallyPaid, c.FormatMoney(open.Due)
		p.Until, p.UntilISO, p.Left = c.FormatTime(q.ValidTo), ui.FormatTimestamp(q.ValidTo), timeLeft(c, left)
		if err := p.choose(c); err != nil {
			return ui.View{}, err
		}
	case open.Waits():
		state = "checking"
	case open.Refunding && open.State != claim.Refunded:
		state = "refunding"
	case open.Ended(tx.Now()) && (open.State == claim.Expired || open.State == claim.Underpaid):
		state = "ended"
	case open.State == claim.Expired || open.State == claim.Underpaid || open.State == claim.Invalid:
		p.Renews = true
	}
	p.Status, p.Means = c.Text("checkout.state."+state), c.Text("checkout.means."+state, open.Merchant)
	p.Look = c.StateCell("checkout.state", state)
	p.Announcement = p.Status + ". " + p.Means
	switch {
	case p.Sends && left <= time.Minute:
		p.Announcement = p.Status + ". " + p.Left
	case p.Sends && left <= 5*time.Minute:
		p.Announcement = p.Status + ". " + c.Text("fund.left.soon")
	}
	for _, one := range open.Payments {
		if p.Done && one.TxID == open.TxHash {
			p.At = c.TimeCell(one.FirstSeen)
		}
	}
	if received := open.Received(); received.Sign() > 0 {
		p.Received = c.FormatMoney(received)
	}
	if open.PayerID == claim.PointOfSale {
		p.ExternalID = "" // a random key
	}
	p.Back, p.Items = refundLines(c, open), itemTable(c, open.Claim)
	if p.Done && open.Redirects && !p.Embedded {
		p.Redirect = open.ReturnURL
	}
	return ui.View{
		Template: "checkout", Title: c.Text("checkout.title", open.Merchant), LivePath: c.URL(checkoutPath(c, "/live")),
		Data:           p,
		FrameAncestors: open.Origins, Bare: p.Embedded, Style: open.Brand.StylePath(),
	}, nil
}

// itemTable lists the line items of a claim.
func itemTable(c *ui.Request, of claim.Claim) ui.Table {
	t := ui.Table{Caption: c.Text("checkout.items"), Heads: c.Columns("invoice.line", "payment.amount#")}
	for _, one := range of.Items {
		amount, err := money.Parse(of.Amount.Asset(), one.Amount)
		if err != nil {
			continue // amounts were parsed when the claim was created
		}
		name := ui.Cell{Text: one.Description}
		if one.Quantity > 1 {
			name.Text = c.FormatCount(one.Quantity) + " × " + one.Description
		}
		t.Rows = append(t.Rows, []ui.Cell{name, c.AmountCell(amount)})
	}
	return t
}

// refundLines describes the refunds of a claim and an overpayment that can be refunded.
func refundLines(c *ui.Request, open claim.Checkout) (all []ui.Cell) {
	waits := open.Refunding // the overpayment is part of a refund
	for _, r := range open.Refunds {
		waits = waits || !r.OfMerchant() && (r.State == claim.RefundOffered || r.State == claim.RefundAccepted)
		switch r.State {
		case claim.RefundOffered:
			all = append(all, ui.Cell{Text: c.Text("checkout.offered", c.FormatMoney(r.Amount))})
		case claim.RefundAccepted:
			all = append(all, ui.Cell{Text: c.Text("checkout.sending", c.FormatMoney(r.Net()), shortTarget(r))})
		case claim.RefundPaid:
			all = append(all, ui.Cell{Text: c.Text("checkout.sent", c.FormatMoney(r.Net()), shortTarget(r)),
				Lines: []ui.Cell{ui.CodeCell(r.TxHash)}})
		case claim.RefundWithdrawn, claim.RefundAwaiting: // the payer does not see it
		}
	}
	if waits {
		return all
	}
	for _, excess := range append([]money.Amount{open.Refundable()}, open.OtherRefundable()...) {
		if excess.Sign() > 0 {
			all = append(all, ui.Cell{Text: c.Text("checkout.owed", c.FormatMoney(excess), open.Merchant)})
		}
	}
	return all
}

// refundPage asks the payer for the address of a refund.
type refundPage struct {
	claim.Refund
	Merchant, Lead   string
	Brand            branding.Branding
	Support          string
	Path             string
	Yours, Fee, Gets string
	Until, UntilISO  string
	Groups           []string
	Where            ui.Field
}

// showRefund renders the form for the address.
func showRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, _, err := c.Claims.Offer(ctx, tx, c.HTTP.PathValue("claim"), c.HTTP.PathValue("token"))
	if errors.Is(err, claim.ErrLink) {
		return ui.View{}, errRefundLink
	}
	if err != nil {
		return ui.View{}, err
	}
	return refund(ctx, c, tx, "refund", r)
}

// errRefundLink is returned for a link of a refund that does not work any more, or never did.
var errRefundLink = apierr.New(apierr.NotFound, "refund_link_ended",
	"This refund link was already used, was replaced, or has expired.")

// maxInvoice is the maximum length of a Lightning invoice in the form of a refund.
const maxInvoice = 2000

// refundGroups returns the groups of characters in which the payer compares an address, none for a refund over
// Lightning.
func refundGroups(r claim.Refund) []string {
	if r.Network == lightning.Chain {
		return nil
	}
	return ui.GroupsOfFour(r.Address)
}

// shortTarget returns the address of a refund for a sentence. Of a Lightning invoice, it returns the beginning.
func shortTarget(r claim.Refund) string {
	const shown = 24
	if r.Network == lightning.Chain && !lightning.IsAddress(r.Address) && len(r.Address) > shown {
		return r.Address[:shown] + "…"
	}
	return r.Address
}

// checkRefund shows the address again with the amount after fees, for confirmation.
func checkRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := c.Claims.Check(ctx, tx, c.HTTP.PathValue("claim"), c.HTTP.PathValue("token"),
		strings.TrimSpace(c.Form.Get("address")))
	if err != nil {
		return ui.View{}, ui.FormError(err)
	}
	return refund(ctx, c, tx, "refund_check", r)
}

func refund(ctx context.Context, c *ui.Request, tx *db.Tx, page string, r claim.Refund) (ui.View, error) {
	open, err := c.Claims.Checkout(ctx, tx, r.ClaimID)
	if err != nil {
		return ui.View{}, err
	}
	c.OfferLanguages(open.Brand.Languages)
	title := c.Text(strings.ReplaceAll(page, "_", ".") + ".title")
	where := c.Field(ui.Field{Name: "address", Required: true, MaxLength: 100})
	lead := c.Text("refund.lead", open.Merchant)
	if by, ok := c.Claims.ByLightning(r); ok {
		where.MaxLength, where.Label = maxInvoice, c.Text("refund.address.lightning")
		lead = c.Text("refund.lead.lightning", open.Merchant, c.FormatMoney(by.Net()))
	}
	if n, ok := c.Claims.Accounts.Lookup(r.Network); ok {
		where.Label = c.Text("refund.address.on", networkTitle(n.Name))
		lead = c.Text("refund.lead.on", open.Merchant, string(r.Amount.Asset()), networkTitle(n.Name))
	}
	return ui.View{Template: page, Style: open.Brand.StylePath(), Title: title, Data: refundPage{
		Refund: r, Merchant: open.Merchant, Lead: lead, Brand: open.Brand, Support: open.Support,
		Path:  "/pay/" + r.ClaimID + "/refund/" + c.HTTP.PathValue("token"),
		Yours: c.FormatMoney(r.Amount), Fee: c.FormatMoney(r.Fee), Gets: c.FormatMoney(r.Net()),
		Groups: refundGroups(r),
		Until:  c.FormatTime(r.ExpiresAt), UntilISO: ui.FormatTimestamp(r.ExpiresAt),
		Where: where,
	}}, nil
}

// acceptRefund starts the refund to the confirmed address. The checkout then shows its progress.
func acceptRefund(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := c.Claims.Accept(ctx, tx, c.HTTP.PathValue("claim"), c.HTTP.PathValue("token"),
		strings.TrimSpace(c.Form.Get("address")))
	return ui.View{Redirect: "/pay/" + r.ClaimID}, ui.FormError(err)
}

// embedded reports whether the page is shown within another site.
func embedded(c *ui.Request) bool { return c.HTTP.URL.Query().Has("embed") }

// checkoutPath returns a path below the checkout, and keeps ?embed and ?pay.
func checkoutPath(c *ui.Request, below string) string {
	return withOffer(c, below, c.HTTP.URL.Query().Get("pay"))
}

// withOffer returns a path below the checkout with a way to pay, and keeps ?embed.
func withOffer(c *ui.Request, below, offer string) string {
	query := url.Values{}
	if embedded(c) {
		query.Set("embed", "1")
	}
	if offer != "" {
		query.Set("pay", offer)
	}
	path := "/pay/" + c.HTTP.PathValue("claim") + below
	if strings.HasPrefix(c.HTTP.URL.Path, salesPath) {
		path = salesPath + "/" + c.HTTP.PathValue("claim") + below
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// timeLeft says in minutes how long a quote is still valid.
func timeLeft(c *ui.Request, d time.Duration) string {
	switch {
	case d <= time.Minute:
		return c.Text("fund.left.minute")
	case d <= 5*time.Minute:
		d += time.Minute
	}
	n := int64(d / time.Minute)
	return c.Plural("fund.left", n, c.FormatCount(n))
}

// incomingTable lists the payments received for a claim, with their confirmations.
func incomingTable(c *ui.Request, all []claim.Payment) ui.Table {
	t := ui.Table{Caption: c.Text("checkout.payments"),
		Heads: c.Columns("deposits.seen", "payment.amount#", "payroll.status", "deposits.tx")}
	for _, p := range all {
		state := c.StateCell("deposit.state", string(p.State))
		if p.State.Live() && p.Wanted > 0 { // a payment over Lightning has no confirmations
			state.Lines = append(state.Lines, ui.Cell{Text: c.Text(
				"deposits.of", c.FormatCount(min(p.Confirmations, p.Wanted)), c.FormatCount(p.Wanted))})
		}
		if !p.OnTime {
			state.Lines = append(state.Lines, ui.Cell{Text: c.Text("deposits.late")})
		}
		tx := ui.CodeCell(p.TxID)
		tx.Copy, tx.Copied, tx.ID = c.Text("checkout.copy.tx"), c.Text("checkout.copied.tx"), "copy-"+p.ID
		t.Rows = append(t.Rows, []ui.Cell{c.TimeCell(p.FirstSeen), c.AmountCell(p.Amount), state, tx})
	}
	return t
}

// renewCheckout requests a new quote.
func renewCheckout(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	_, err := c.Claims.Renew(ctx, tx, c.HTTP.PathValue("claim"))
	return ui.View{Redirect: checkoutPath(c, "")}, ui.FormError(err)
}
