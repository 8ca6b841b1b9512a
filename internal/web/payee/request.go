package payee

import (
	"context"
	"strings"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

func requestPath(c *ui.Request) string { return "/payee/" + c.HTTP.PathValue("token") }

// requestPage is what a payee without an account sees at a link.
type requestPage struct {
	Company, Path, Until, Now string
	Code                      ui.Field
	Tax                       ui.Cell // state of the payee's tax form, with a link to it; the zero value for none
	Step                      string  // "start", "code" or "saved"
	Check                     string  // what the bank says about the account, or ""
	Failed, Pending           bool    // whether the bank did not confirm it, or has not answered
}

// showRequest names the company that asks a payee without an account where to be paid.
func showRequest(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	p := requestPage{Step: "start", Company: r.CompanyName, Path: requestPath(c), Until: c.FormatTime(r.Expires)}
	if r.Now != nil {
		p.Now = company.DestinationName(*r.Now)
	}
	if c.KYC != nil {
		signed, err := c.KYC.TaxForms(ctx, tx, []string{r.Owner.ID})
		if err != nil {
			return ui.View{}, err
		}
		p.Tax = c.StateCell("tax.status", signed[r.Owner.ID].Status(tx.Now()))
		p.Tax.Path = p.Path + "/tax"
	}
	return ui.View{Template: "payee_request", Title: c.Text("payee.request.title", r.CompanyName), Data: p}, nil
}

// showRequestedFields renders the form for the destination.
func showRequestedFields(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	return company.AskByLink(c, requestPath(c), r)
}

// checkRequested renders the form again with the problems of the posted destination.
func checkRequested(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	if err := company.CheckByLink(ctx, tx, c, r); err != nil {
		return ui.View{}, err
	}
	return company.AskByLink(c, requestPath(c), r)
}

// enterRequested keeps the posted destination and mails the code that confirms it.
func enterRequested(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	return ui.View{Redirect: requestPath(c) + "/code"}, company.EnterByLink(ctx, tx, c, r)
}

// showRequestCode renders the form for the code.
func showRequestCode(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	if !r.Entered {
		return ui.View{Redirect: requestPath(c)}, nil
	}
	return ui.View{Template: "payee_request", Title: c.Text("payee.code.title"), Data: requestPage{Step: "code",
		Company: r.CompanyName, Path: requestPath(c), Code: c.Field(ui.Field{Name: "code", Label: c.Text("payee.code"),
			Autocomplete: "one-time-code", InputMode: "numeric", Required: true, MaxLength: 12})}}, nil
}

// confirmRequested stores the destination if the code is right. A wrong code is counted, so it commits too.
func confirmRequested(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	code, right := strings.TrimSpace(c.Form.Get("code")), false
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		r, err := destination.FindRequest(ctx, tx, c.HTTP.PathValue("token"))
		if err != nil {
			return err
		}
		right, err = r.Confirm(ctx, tx, company.Setup(c), code)
		return err
	})
	if err == nil && !right {
		err = destination.ErrCode.At("body", "/code")
	}
	return ui.View{Redirect: requestPath(c) + "/saved"}, ui.FormError(err)
}

// showRequestSaved confirms that the destination was stored, and shows what its bank says about the account.
func showRequestSaved(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	d, err := destination.FindSaved(ctx, tx, c.HTTP.PathValue("token"))
	if err != nil {
		return ui.View{}, err
	}
	p := requestPage{Step: "saved", Path: requestPath(c), Check: company.CheckText(c, d),
		Failed: d.Check.Failed(), Pending: d.Check == nil || d.Check.Result == destination.CheckPending}
	return ui.View{Template: "payee_request", Title: c.Text("payee.saved.title"), Data: p}, nil
}
