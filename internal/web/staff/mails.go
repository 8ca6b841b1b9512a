package staff

import (
	"cmp"
	"context"
	"net/url"
	"regexp"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/mail"
	"github.com/stipend/stipend/internal/web/ui"
)

// maxMails is the number of mails that the page lists.
const maxMails = 50

type mailRow struct {
	mail.StoredMail
	At   string
	Link string // path of the link in the mail, or ""
}

// showMails lists the mails that the sandbox stored instead of sending: those of the signed-in user's company, and,
// on the sandbox's own machine, those without a company, such as sign-up links.
func showMails(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	signedIn, err := c.FindSession(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	var all []mail.StoredMail
	if c.OnThisMachine() {
		if all, _, err = mail.List(ctx, tx, "", db.Page{PerPage: maxMails}); err != nil {
			return ui.View{}, err
		}
	}
	switch {
	case signedIn && c.Session.Manages():
		own, _, err := mail.List(ctx, tx, c.Session.Company.ID, db.Page{PerPage: maxMails})
		if err != nil {
			return ui.View{}, err
		}
		all = append(all, own...)
	case c.OnThisMachine():
	case signedIn:
		return ui.View{}, ui.ErrRole
	default:
		return ui.View{Redirect: c.SignInURL()}, nil
	}
	slices.SortStableFunc(all, func(a, b mail.StoredMail) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})
	shown := []mailRow{}
	for _, m := range all[:min(len(all), maxMails)] {
		shown = append(shown, mailRow{m, c.FormatTime(m.Created), linkIn(m.Text)})
	}
	return ui.View{Template: "mails", Title: c.Text("mails.title"), Lead: c.Text("mails.lead"),
		Data: shown}, nil
}

var address = regexp.MustCompile(`(?m)^https?://\S+$`)

// linkIn returns the path of the first link in a mail, or "".
func linkIn(text string) string {
	u, err := url.Parse(address.FindString(text))
	if err != nil || u.Path == "" {
		return ""
	}
	return u.Path
}
