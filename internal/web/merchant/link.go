package merchant

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/paymentlink"
	"github.com/stipend/stipend/internal/web/ui"
)

// isLink reports whether the path names a payment link and not a claim.
func isLink(c *ui.Request) bool {
	return strings.HasPrefix(c.HTTP.PathValue("claim"), paymentlink.Prefix+"_")
}

// showPay renders the checkout of a claim, or the page of a payment link.
func showPay(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if isLink(c) {
		return showLink(ctx, tx, c)
	}
	return showCheckout(ctx, tx, c)
}

// linkPage is the public page of a payment link.
type linkPage struct {
	paymentlink.Public
	Path, Key     string
	Price, Bounds string // fixed amount, or the bounds of the payer's amount
	Suggested     []ui.Option
	Typed, Email  ui.Field
	Closed        string // why the link takes no payment; "" if it does
	Ends          string
}

func showLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	l, err := c.Links.Public(ctx, tx, c.HTTP.PathValue("claim"))
	if err != nil {
		return ui.View{}, err
	}
	c.OfferLanguages(l.Brand.Languages)
	p := linkPage{Public: l, Path: c.URL(checkoutPath(c, "")), Key: c.Form.Get("opening")}
	if p.Key == "" {
		p.Key = tx.NewID("opn")
	}
	switch {
	case !l.Open(tx.Now()):
		p.Closed = c.Text("link.closed")
	case l.Full():
		p.Closed = c.Text("link.full")
	}
	if !l.EndsAt.IsZero() {
		p.Ends = c.FormatTime(l.EndsAt)
	}
	if l.Amount.Sign() > 0 {
		p.Price = c.FormatMoney(l.Amount)
	}
	chosen := c.Form.Get("suggested")
	for i, a := range l.Suggested {
		p.Suggested = append(p.Suggested, ui.Option{Value: a.String(), Label: c.FormatMoney(a),
			Selected: chosen == a.String() || !c.Form.Has("opening") && i == 0 && c.Query("amount") == ""})
	}
	switch {
	case l.Min.Sign() > 0 && l.Max.Sign() > 0:
		p.Bounds = c.Text("link.between", c.FormatMoney(l.Min), c.FormatMoney(l.Max))
	case l.Min.Sign() > 0:
		p.Bounds = c.Text("link.least", c.FormatMoney(l.Min))
	case l.Max.Sign() > 0:
		p.Bounds = c.Text("link.most", c.FormatMoney(l.Max))
	}
	label := c.Text("link.amount", string(l.Currency))
	if len(p.Suggested) > 0 {
		label = c.Text("link.other", string(l.Currency))
	}
	c.Labels = map[string]string{"amount": label, "notification_email": c.Text("link.email")}
	p.Typed = c.Field(ui.Field{Name: "amount", Label: label, Hint: p.Bounds, Value: c.Query("amount"), MaxLength: 40,
		InputMode: "decimal"})
	p.Email = c.Field(ui.Field{Name: "notification_email", Label: c.Labels["notification_email"], Type: "email",
		Autocomplete: "email", MaxLength: 254})
	return ui.View{Template: "pay_link", Title: l.Title, Style: l.Brand.StylePath(), FrameAncestors: l.Origins,
		Bare: embedded(c), Data: p, Summary: p.summary()}, nil
}

// summary returns what messages with a link to the page show: the merchant, and the price and description if there are
// any.
func (p linkPage) summary() string {
	parts := []string{p.Merchant}
	for _, s := range []string{p.Price, p.Description} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " · ")
}

// openLink creates the claim of an opening, once, and leads to its checkout.
func openLink(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if !isLink(c) {
		return ui.View{}, ui.ErrNoPage
	}
	l, err := c.Links.Public(ctx, tx, c.HTTP.PathValue("claim"))
	if err != nil {
		return ui.View{}, err
	}
	amount := c.Form.Get("suggested")
	if typed := strings.TrimSpace(c.Form.Get("amount")); typed != "" {
		amount = c.PlainAmount(typed, l.Currency)
	}
	made, err := c.Links.Claim(ctx, tx, l.ID, paymentlink.OpenParams{
		Key: c.Form.Get("opening"), Amount: amount, Email: strings.TrimSpace(c.Form.Get("notification_email")),
	})
	if err != nil {
		return ui.View{}, ui.FormError(err)
	}
	path := "/pay/" + made.ID
	if embedded(c) {
		path += "?embed=1"
	}
	return ui.View{Redirect: path}, nil
}
