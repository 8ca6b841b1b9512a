package company

import (
	"cmp"
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/payee"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payroll"
	"github.com/stipend/stipend/internal/web/ui"
)

const unpayablePath = "/recipients/unpayable"

// maxStopped is the number of payments in each state that the page lists, and maxOpen that of invitations.
const (
	maxStopped = 50
	maxOpen    = 100
)

// errNobodyMailed is returned by a reminder that mailed nobody.
var errNobodyMailed = apierr.New(apierr.Conflict, "already_asked",
	"Nobody was mailed: everyone was mailed within the last 24 hours, or has no email address.")

type unpayablePage struct {
	People, Invitations ui.Table
	Payments            ui.Table // that wait for a change by their payees
	Pager               ui.Pager
	Remindable          bool
	MoreInvitations     bool // there are more than the page lists
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
	by := c.Session.Principal()
	found, total, err := c.Payroll.Unpayable(ctx, tx, by, "", db.Page{Number: c.PageNumber(), PerPage: ui.PerPage})
	if err != nil {
		return ui.View{}, err
	}
	p := unpayablePage{Pager: c.Pager(c.Page(), total), Remindable: total > 0,
		People: ui.Table{Caption: c.Text("unpayable.people"), Empty: c.Empty("unpayable.none"),
			Heads: c.Columns("recipient.name|a", "unpayable.why|e", "unpayable.asked#|d")},
		Invitations: ui.Table{Caption: c.Text("unpayable.invited"), Empty: c.Empty("invitations.none"),
			Heads: c.Columns("recipient.email|a", "payroll.status|c", "unpayable.asked#|d")}}
	for _, u := range found {
		name := c.LinkCell(u.Name, recipientPath(u.ID))
		name.Kind = "person"
		p.People.Rows = append(p.People.Rows, []ui.Cell{name, obstacleCell(c, u), c.TimeCell(u.Asked)})
	}
	for _, state := range []string{payee.InvitationSent, payee.InvitationExpired} {
		open, err := payee.Invitations(ctx, tx, by, payee.InvitationsParams{Status: state,
			Page: db.Page{Number: 1, PerPage: maxOpen}})
		if err != nil {
			return ui.View{}, err
		}
		for _, v := range open.Items {
			p.Invitations.Rows = append(p.Invitations.Rows, []ui.Cell{{Text: v.Email},
				c.StateCell("invitation.state", v.State), c.TimeCell(v.Sent)})
		}
		p.Remindable = p.Remindable || open.Total > 0
		p.MoreInvitations = p.MoreInvitations || open.Total > len(open.Items)
	}
	if p.Payments, err = stoppedPayments(ctx, tx, c); err != nil {
		return ui.View{}, err
	}
	return ui.View{Template: "unpayable", Title: c.Text("unpayable.title"), Lead: c.Text("unpayable.lead"),
		Crumbs: peopleCrumbs(c), Data: p}, nil
}

// obstacleCell returns the reasons why a payee cannot be paid.
func obstacleCell(c *ui.Request, u payroll.Unpayable) (cell ui.Cell) {
	var lines []ui.Cell
	for _, o := range u.Obstacles {
		text := ReasonText(c, o.Reason)
		switch {
		case o.Payment != nil:
			text = c.Word("payment.state", string(o.Payment.State))
			if o.Payment.Reason != "" {
				text = ReasonText(c, o.Payment.Reason)
			}
			text = c.Text("unpayable.waits", c.FormatMoney(o.Payment.Amount), text)
		case o.Destination != nil:
			text = c.Text("unpayable.one", DestinationName(*o.Destination), text)
		case u.UserID == "" && !mail.Valid(u.Email):
			text = c.Text("unpayable.enter")
		case u.UserID == "":
			text = c.Text("unpayable.link")
		default:
			text = c.Text("unpayable.theirs")
		}
		lines = append(lines, ui.Cell{Text: text})
	}
	if len(lines) > 0 {
		cell, cell.Lines = lines[0], lines[1:]
	}
	return cell
}

// remindAll mails everyone who cannot be paid yet; see [payroll.Service.Remind].
func remindAll(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	done, err := c.Payroll.Remind(ctx, tx, c.Sealer, c.Session.Principal(), "")
	if err == nil && done.Payees+done.Invitations == 0 {
		err = ui.WholeFormError(errNobodyMailed)
	}
	return ui.View{Redirect: unpayablePath}, err
}

// askRecipient mails one person who has no destination, or whose destination is to be renewed.
func askRecipient(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	id := c.HTTP.PathValue("id")
	return ui.View{Redirect: recipientPath(id)}, ui.WholeFormError(destination.Ask(ctx, tx, c.Sealer,
		c.Session.Principal(), id))
}

// AskByLink renders the form for a destination that a payee without an account enters at a link.
func AskByLink(c *ui.Request, path string, r destination.Request) (ui.View, error) {
	p := destinationPage{Path: path, Own: true, Name: c.Text("form.back"), Holder: r.Owner.Name, Country: r.Owner.Country,
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
