package company

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

const unpayablePath = "/recipients/unpayable"

// maxReminded is the number of people that one action reminds, and maxListed the number of those that it reads.
const (
	maxReminded = 500
	maxListed   = 10_000
)

// maxStopped is the number of payments in each state that the page lists.
const maxStopped = 50

// remindPeriod is the time after which a person is reminded again.
const remindPeriod = 24 * time.Hour

type unpayablePage struct {
	People, Invitations ui.Table
	Payments            ui.Table // that wait for a change by their payees
	Pager               ui.Pager
	Remindable          bool
}

// waiting returns a page of the people who have no destination.
func waiting(ctx context.Context, tx *db.Tx, c *ui.Request, page, size int) (payee.Slice[payee.Recipient], error) {
	return payee.List(ctx, tx, c.Session.Principal(), payee.ListParams{Status: payee.Pending,
		Page: db.Page{Number: page, PerPage: size}})
}

// stoppedPayments lists the payments that failed or came back because of their destination.
func stoppedPayments(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.Table, error) {
	t := ui.Table{Caption: c.Text("unpayable.payments"),
		Heads: c.Columns("recipient.name|a", "unpayable.why|e", "payroll.created#|d", "payment.amount#|b")}
	var all []payroll.PayeePayment
	for _, state := range []payroll.State{payroll.ActionRequired, payroll.Returned} {
		some, _, err := c.Payroll.Payments(ctx, tx, c.Session.Principal(), "", payroll.PaymentFilter{State: state,
			Page: db.Page{Number: 1, PerPage: maxStopped}})
		if err != nil {
			return t, err
		}
		all = append(all, some...)
	}
	var ids []string
	for _, m := range all {
		ids = append(ids, m.PayeeID)
	}
	payees, err := payee.Payees(ctx, tx, c.Session.Company.ID, ids)
	if err != nil {
		return t, err
	}
	for _, m := range all {
		name := c.LinkCell(cmp.Or(payees[m.PayeeID].Name, m.PayeeID), recipientPath(m.PayeeID))
		name.Kind = "person"
		why := c.StateCell("payment.state", string(m.State))
		if m.Reason != "" {
			why.Lines = []ui.Cell{{Text: ReasonText(c, m.Reason)}}
		}
		t.Rows = append(t.Rows, []ui.Cell{name, why, c.TimeCell(m.CreatedAt), c.AmountCell(m.Amount)})
	}
	return t, nil
}

// showUnpayable lists who cannot be paid yet and why.
func showUnpayable(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	found, err := waiting(ctx, tx, c, c.PageNumber(), ui.PerPage)
	if err != nil {
		return ui.View{}, err
	}
	var ids []string
	for _, r := range found.Items {
		ids = append(ids, r.ID)
	}
	asked, err := destination.AskedAt(ctx, tx, c.Session.Company.ID, ids)
	if err != nil {
		return ui.View{}, err
	}
	p := unpayablePage{Pager: c.Pager(c.Page(), int64(found.Total)),
		People: ui.Table{Caption: c.Text("unpayable.people"), Empty: c.Text("unpayable.none"),
			Heads: c.Columns("recipient.name|a", "unpayable.why|e", "unpayable.asked#|d")},
		Invitations: ui.Table{Caption: c.Text("unpayable.invited"), Empty: c.Text("invitations.none"),
			Heads: c.Columns("recipient.email|a", "payroll.status|c", "unpayable.asked#|d")}}
	for _, r := range found.Items {
		name := c.LinkCell(r.Name, recipientPath(r.ID))
		name.Kind = "person"
		why := "unpayable.theirs"
		switch {
		case r.UserID == "" && !mail.Valid(r.Email):
			why = "unpayable.enter"
		case r.UserID == "":
			why = "unpayable.link"
		}
		p.People.Rows = append(p.People.Rows, []ui.Cell{name, {Text: c.Text(why)}, c.TimeCell(asked[r.ID])})
		p.Remindable = p.Remindable || mail.Valid(r.Email)
	}
	for _, state := range []string{payee.InvitationSent, payee.InvitationExpired} {
		open, err := payee.Invitations(ctx, tx, c.Session.Principal(), payee.InvitationsParams{Status: state,
			Page: db.Page{Number: 1, PerPage: 100}})
		if err != nil {
			return ui.View{}, err
		}
		for _, v := range open.Items {
			p.Invitations.Rows = append(p.Invitations.Rows, []ui.Cell{{Text: v.Email},
				c.StateCell("invitation.state", v.State), c.TimeCell(v.Sent)})
			p.Remindable = true
		}
	}
	if p.Payments, err = stoppedPayments(ctx, tx, c); err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "unpayable", Title: c.Text("unpayable.title"), Lead: c.Text("unpayable.lead"),
		Crumbs: peopleCrumbs(c), Data: p}, nil
}

// remindAll mails everyone who cannot be paid yet, except those who were mailed within a day. If there are more people
// than it may remind, the next call goes on with the others.
func remindAll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	by := c.Session.Principal()
	for page, left := 1, maxReminded; page <= maxListed/100 && left > 0; page++ {
		found, err := waiting(ctx, tx, c, page, 100)
		if err != nil {
			return ui.View{}, err
		}
		var ids []string
		for _, r := range found.Items {
			ids = append(ids, r.ID)
		}
		asked, err := destination.AskedAt(ctx, tx, c.Session.Company.ID, ids)
		if err != nil {
			return ui.View{}, err
		}
		for _, r := range found.Items {
			if left == 0 || asked[r.ID].After(tx.Now().Add(-remindPeriod)) || !mail.Valid(r.Email) {
				continue
			}
			switch err := destination.Ask(ctx, tx, c.Sealer, by, r.ID); {
			case err == nil:
				left--
			case !errors.Is(err, destination.ErrAsked) && !errors.Is(err, destination.ErrManaged):
				return ui.View{}, err
			}
		}
		if page*100 >= found.Total {
			break
		}
	}
	for _, state := range []string{payee.InvitationSent, payee.InvitationExpired} {
		open, err := payee.Invitations(ctx, tx, by, payee.InvitationsParams{Status: state,
			Page: db.Page{Number: 1, PerPage: 100}})
		if err != nil {
			return ui.View{}, err
		}
		for _, v := range open.Items {
			if v.Resends >= payee.MaxResends || v.Sent.After(tx.Now().Add(-remindPeriod)) {
				continue
			}
			if _, err := payee.Resend(ctx, tx, c.Sealer, by, "", v.Email); err != nil &&
				!errors.Is(err, payee.ErrNotOpen) && !errors.Is(err, payee.ErrResendLimit) {
				return ui.View{}, err
			}
		}
	}
	return ui.View{Redirect: unpayablePath}, nil
}

// askRecipient mails one person who has no destination, or whose destination is to be renewed.
func askRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	return ui.View{Redirect: recipientPath(id)}, ui.WholeFormError(destination.Ask(ctx, tx, c.Sealer,
		c.Session.Principal(), id))
}

// AskByLink renders the form for a destination that a payee without an account enters at a link.
func AskByLink(c *ui.Request, path string, r destination.Request) (ui.View, error) {
	p := destinationPage{Path: path, Name: c.Text("form.back"), Holder: r.Owner.Name, Country: r.Owner.Country,
		Check: path + "/destinations/check", Symbol: formOrQuery(c, "symbol"), Rail: formOrQuery(c, dataPrefix+railKey)}
	if r.Now != nil {
		p.Was = DestinationName(*r.Now)
	}
	return askDestination(c, p, c.Text("payee.request.fields", r.CompanyName), r.Owner.Country,
		func(symbol string) (destination.Requirement, error) { return r.Required(Setup(c), symbol) })
}

// CheckByLink returns the problems of the posted destination.
func CheckByLink(ctx context.Context, tx *db.Tx, c *ui.Request, r destination.Request) error {
	data, err := destinationData(c)
	if err != nil {
		return err
	}
	return destinationFormError(r.Check(ctx, tx, Setup(c), c.Form.Get("symbol"), data))
}

// EnterByLink keeps the posted destination until a code confirms it.
func EnterByLink(ctx context.Context, tx *db.Tx, c *ui.Request, r destination.Request) error {
	data, err := destinationData(c)
	if err != nil {
		return err
	}
	if unconfirmed := confirmed(c); unconfirmed != nil {
		if err := destinationFormError(r.Check(ctx, tx, Setup(c), c.Form.Get("symbol"), data)); err != nil {
			return err
		}
		return unconfirmed
	}
	return destinationFormError(r.Enter(ctx, tx, Setup(c), c.Form.Get("symbol"), data))
}
