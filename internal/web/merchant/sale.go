package merchant

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/claim"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/web/ui"
)

const (
	salesPath  = "/claims/sales"
	salePrefix = "sale"

	// saleExpiry is the time in which the customer can pay a sale.
	saleExpiry = 30 * time.Minute
	percent    = 100
)

// tips are the tips to choose from, in percent of the amount.
var tips = []int64{0, 5, 10, 15, 20}

// keypadPage is the form for a sale.
type keypadPage struct {
	Path, Key, Company string
	Amount, Currency   ui.Field
	Keys               []ui.Option
	Tips               []ui.Option
	Tip, Description   ui.Field
	More               bool // whether Tip and Description, which are rarely used, are shown at first
}

// showKeypad renders the keypad of a point of sale. Its key makes sure that a sale that is sent twice is created once.
func showKeypad(_ context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	c.Labels = map[string]string{"amount": c.Text("payment.amount"), "tip_amount": c.Text("sale.tip.amount"),
		"description": c.Text("sale.description")}
	field := func(f ui.Field) ui.Field {
		f.Label = c.Labels[f.Name]
		return c.Field(f)
	}
	p := keypadPage{Path: salesPath, Key: c.Form.Get("sale"), Company: c.Session.Company.ID,
		Amount: field(ui.Field{Name: "amount", Required: true, MaxLength: 40, InputMode: "decimal",
			Autocomplete: "off"}),
		Tip:         field(ui.Field{Name: "tip_amount", MaxLength: 40, InputMode: "decimal", Autocomplete: "off"}),
		Description: field(ui.Field{Name: "description", MaxLength: 200, Autocomplete: "off"}),
		Currency: c.Field(ui.Field{Name: "denomination_currency", Label: c.Text("field.currency"), Type: "select",
			Value: cmp.Or(c.Query("currency"), string(money.USD)), Options: ui.ClaimCurrencies()}),
	}
	p.More = p.Tip.Value != "" || p.Description.Value != "" || p.Tip.Problem.Text != "" ||
		p.Description.Problem.Text != ""
	if p.Key == "" || c.Problem != nil && c.Problem.Code == errSaleSent.Code {
		p.Key = tx.NewID(salePrefix)
	}
	point, _, _ := strings.Cut(strings.TrimLeft(c.FormatNumber("0.5"), "0"), "5")
	for _, key := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", point, "0"} {
		p.Keys = append(p.Keys, ui.Option{Value: key, Label: key})
	}
	p.Keys = append(p.Keys, ui.Option{Value: "back", Label: c.Text("sale.back")})
	for _, n := range tips {
		o := ui.Option{Value: strconv.FormatInt(n, 10), Label: c.FormatCount(n) + "\u00a0%"}
		if n == 0 {
			o.Label = c.Text("sale.tip.none")
		}
		o.Selected = o.Value == c.Form.Get("tip") || n == 0 && !c.Form.Has("tip")
		p.Tips = append(p.Tips, o)
	}
	return ui.View{Template: "keypad", Title: c.Text("sale.title"), Data: p, Sends: true,
		Crumbs: []ui.Cell{c.LinkCell(c.Text("claims.title"), "/claims")}}, nil
}

var (
	errSaleKey  = apierr.New(apierr.Invalid, "invalid_parameter", "This form is incomplete. Open the page again.")
	errSaleSent = apierr.New(apierr.Conflict, "sale_sent",
		"This sale was already sent with other values. Check the claims, then send it again as a new sale.")
	errTip = apierr.New(apierr.Invalid, "invalid_parameter", "Choose a tip, or enter an amount.")
)

// createSale creates the claim of a sale, and leads to its code. Sending the same form again leads to the same claim,
// also if another member sends it, or in another language.
func createSale(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	key := c.Form.Get("sale")
	if !strings.HasPrefix(key, salePrefix+"_") {
		return ui.View{}, errSaleKey.At("body", "")
	}
	currency := money.Asset(c.Form.Get("denomination_currency"))
	amount := func(name string) string { return c.PlainAmount(strings.TrimSpace(c.Form.Get(name)), currency) }
	sale, err := newSale(currency, amount("amount"), c.Form.Get("tip"), amount("tip_amount"))
	if err != nil {
		return ui.View{}, err
	}
	p := claim.CreateParams{
		PayerID: claim.PointOfSale, AmountText: sale.total.String(), Currency: string(currency), ExternalID: key,
		Description: strings.TrimSpace(c.Form.Get("description")), ExpiresIn: saleExpiry,
		Metadata: map[string]string{"member": c.Session.User.ID},
		Compared: map[string]string{"net": sale.net.String(), "tip": sale.tip.String()},
	}
	if len(c.Claims.Accepts()) > 1 {
		p.Funding = claim.AnyAsset
	}
	if sale.tip.Sign() > 0 {
		p.Metadata["tip"] = sale.tip.String()
		p.Items = []claim.ItemParams{{Description: c.Text("sale.item"), AmountText: sale.net.String()},
			{Description: c.Text("sale.tip"), AmountText: sale.tip.String()}}
	}
	made, err := c.Claims.Create(ctx, tx, c.Session.Principal(), p)
	if errors.Is(err, claim.ErrExternalID) {
		err = errSaleSent
	}
	return ui.View{Redirect: salesPath + "/" + made.ID}, ui.FormConflict(err)
}

// sale is the amount of a sale, its tip, and their sum.
type sale struct{ net, tip, total money.Amount }

// newSale computes a sale. An amount of the tip replaces the percentage, which is rounded to the currency's unit.
func newSale(currency money.Asset, amount, share, typed string) (s sale, err error) {
	var list apierr.List
	if _, known := money.Lookup(string(currency)); !known {
		list.Add("currency_not_supported", "/denomination_currency",
			"The service does not know this currency; see GET /api/currencies.")
		return s, list.Err()
	}
	s.net, err = money.Parse(currency, amount)
	if err == nil && s.net.Sign() <= 0 {
		err = money.ErrNotPositive
	}
	if err := list.AddErr(err, "/amount"); err != nil {
		return s, err
	}
	s.tip = money.Zero(currency)
	if typed != "" {
		s.tip, err = money.Parse(currency, typed)
		if err == nil && s.tip.Sign() < 0 {
			err = money.ErrNotPositive
		}
		if err := list.AddErr(err, "/tip_amount"); err != nil {
			return s, err
		}
	} else if share != "" {
		n, err := strconv.ParseInt(share, 10, 64)
		if err != nil || !slices.Contains(tips, n) {
			return s, errTip.At("body", "/tip_amount")
		}
		if list.Empty() {
			if s.tip, err = s.net.Fraction(n, percent, money.HalfEven); err != nil {
				return s, err
			}
		}
	}
	if err := list.Err(); err != nil {
		return s, err
	}
	s.total, err = s.net.Add(s.tip)
	return s, err
}

// showSale renders the checkout of a sale on the merchant's phone, for the customer to scan.
func showSale(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	if _, err := c.Claims.Get(ctx, tx, c.Session.Principal(), "", c.HTTP.PathValue("claim")); err != nil {
		return ui.View{}, err
	}
	v, err := showCheckout(ctx, tx, c)
	if err != nil {
		return v, err
	}
	p := v.Data.(checkoutPage)
	p.Next, p.Renews, p.Redirect, p.ReturnURL = c.URL(salesPath+"?currency="+string(p.Claim.Amount.Asset())), false, "", ""
	p.Call = nil // the customer pays from another device
	v.Data, v.FrameAncestors, v.Bare = p, nil, false
	return v, nil
}
