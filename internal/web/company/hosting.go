package company

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/travelrule"
	"github.com/stipend/stipend/internal/web/ui"
	"github.com/stipend/stipend/internal/withdrawal"
)

// hostingPage asks who hosts the wallet of a destination, and for the proof that its owner controls it.
type hostingPage struct {
	Path, Back, Name string
	Where, Address   string
	Fields           []ui.Field // who hosts it
	Proved           string     // when control was proved, or ""
	Challenge        string     // text to sign, or ""
	Until            string     // end of its validity
	Bitcoin          bool
	Signature        []ui.Field
}

// hostingPath returns the path of the page about the wallet of a destination.
func hostingPath(prefix, id string) string { return prefix + "/destinations/" + id + "/wallet" }

// asksHosting reports whether the operator needs to know who hosts the wallet of a destination.
func asksHosting(c *ui.Request, d destination.Destination) bool {
	return c.TravelRule != nil && c.TravelRule.On() && d.Kind == destination.Crypto
}

// renderHosting renders the page about the wallet of a destination.
func renderHosting(ctx context.Context, tx *db.Tx, c *ui.Request, d destination.Destination, p hostingPage) (ui.View,
	error) {
	if c.TravelRule == nil || d.Kind != destination.Crypto {
		return ui.View{}, apierr.NotFoundErr
	}
	w, err := c.TravelRule.Wallet(ctx, tx, d)
	if err != nil {
		return ui.View{}, err
	}
	p.Where, p.Address, p.Bitcoin = DestinationName(d), d.Address, d.Rail == destination.RailBitcoin
	p.Fields = []ui.Field{
		c.Field(ui.Field{Name: "hosting", Type: "select", Value: string(w.Hosting),
			Options: []ui.Option{
				{Value: string(travelrule.SelfHosted), Label: c.Text("hosting.self_hosted")},
				{Value: string(travelrule.Hosted), Label: c.Text("hosting.vasp")},
			}}),
		c.Field(ui.Field{Name: "vasp_name", Value: w.VASP.Name, MaxLength: 100}),
	}
	if w.Proof != nil {
		p.Proved = c.FormatTime(w.Proof.At)
	}
	if w.Challenge != nil && tx.Now().Before(w.Challenge.Expires) {
		p.Challenge, p.Until = w.Challenge.Message, c.FormatTime(w.Challenge.Expires)
		p.Signature = []ui.Field{c.Field(ui.Field{Name: "signature", Type: "textarea", Required: true,
			MaxLength: 4096})}
	}
	return ui.View{Template: "hosting", Title: c.Text("hosting.title"), Data: p}, nil
}

// postedHosting stores the posted statement about the wallet of a destination.
func postedHosting(ctx context.Context, tx *db.Tx, c *ui.Request, by identity.Principal,
	d destination.Destination) error {
	if c.TravelRule == nil {
		return apierr.NotFoundErr
	}
	t := travelrule.Statement{Hosting: c.Form.Get("hosting")}
	if t.Hosting == string(travelrule.Hosted) {
		t.VASPName = c.Form.Get("vasp_name")
	}
	_, err := c.TravelRule.Declare(ctx, tx, by, d, t)
	return ui.FormConflict(err)
}

// postedProof verifies and stores the posted signature.
func postedProof(ctx context.Context, tx *db.Tx, c *ui.Request, by identity.Principal,
	d destination.Destination) error {
	if c.TravelRule == nil {
		return apierr.NotFoundErr
	}
	_, err := c.TravelRule.Prove(ctx, tx, by, d, c.Form.Get("signature"))
	return ui.FormConflict(err)
}

// destination returns the destination in the path, and who acts.
func (o OwnerPages) destination(ctx context.Context, tx *db.Tx, c *ui.Request) (identity.Principal,
	destination.Destination, error) {
	by, id := o.Owner(c)
	d, err := destination.Get(ctx, tx, by, id, c.HTTP.PathValue("distribution"))
	return by, d, err
}

// showHosting renders who hosts the wallet of a destination.
func (o OwnerPages) showHosting(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, owner, err := o.owner(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	d, err := destination.Get(ctx, tx, by, owner.ID, c.HTTP.PathValue("distribution"))
	if err != nil {
		return ui.View{}, err
	}
	p := o.page(c, owner)
	return renderHosting(ctx, tx, c, d, hostingPage{Path: hostingPath(p.Path, d.ID), Back: p.Back, Name: p.Name})
}

// declareHosting stores who hosts the wallet of a destination.
func (o OwnerPages) declareHosting(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, d, err := o.destination(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: hostingPath(o.Path(c), d.ID)}, postedHosting(ctx, tx, c, by, d)
}

// proveHosting stores the proof that the owner of a destination controls its wallet.
func (o OwnerPages) proveHosting(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by, d, err := o.destination(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: hostingPath(o.Path(c), d.ID)}, postedProof(ctx, tx, c, by, d)
}

// ownDestination returns the company's withdrawal destination whose ID is in the path of the request.
func ownDestination(ctx context.Context, tx *db.Tx, c *ui.Request) (destination.Destination, error) {
	d, err := withdrawal.DestinationOf(ctx, tx, c.Session.Company.ID, c.HTTP.PathValue("id"))
	if err == nil && d.ID == "" {
		err = apierr.NotFoundErr
	}
	return d.To, err
}

// showOwnHosting renders who hosts the wallet of a destination of the company's withdrawals.
func showOwnHosting(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := ownDestination(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	return renderHosting(ctx, tx, c, d, hostingPage{Path: hostingPath("/wallets", d.ID), Back: withdrawalsPath,
		Name: c.Text("withdrawals.title")})
}

// declareOwnHosting stores who hosts the wallet of a destination of the company's withdrawals.
func declareOwnHosting(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := ownDestination(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: hostingPath("/wallets", d.ID)}, postedHosting(ctx, tx, c, c.Session.Principal(), d)
}

// proveOwnHosting stores the proof that the company controls the wallet of a destination of its withdrawals.
func proveOwnHosting(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := ownDestination(ctx, tx, c)
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: hostingPath("/wallets", d.ID)}, postedProof(ctx, tx, c, c.Session.Principal(), d)
}
