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

// mailsShown is how many mails a page lists.
const mailsShown = 50

type mailShown struct {
	mail.Kept
	At   string
	Link string // that it is about, "" without
}

// showMails lists what a sandbox without a mail server would have sent: to who manages a company, that company's mails; at the
// machine itself also those on no company's behalf, with which accounts begin.
func showMails(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	signedIn, err := c.FindSession(ctx, tx)
	if err != nil {
		return ui.View{}, err
	}
	var all []mail.Kept
	if c.OnThisMachine() {
		if all, _, err = mail.List(ctx, tx, "", 0, mailsShown); err != nil {
			return ui.View{}, err
		}
	}
	switch {
	case signedIn && c.Session.Manages():
		own, _, err := mail.List(ctx, tx, c.Session.Company.ID, 0, mailsShown)
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
	slices.SortStableFunc(all, func(a, b mail.Kept) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	shown := []mailShown{}
	for _, m := range all[:min(len(all), mailsShown)] {
		shown = append(shown, mailShown{m, ui.FormatDay(m.Created), linkIn(m.Text)})
	}
	return ui.View{Template: "mails", Title: c.Text("mails.title"), Data: shown}, nil
}

var address = regexp.MustCompile(`(?m)^https?://\S+$`)

// linkIn is the path of these pages that a mail leads to.
func linkIn(text string) string {
	u, err := url.Parse(address.FindString(text))
	if err != nil || u.Path == "" {
		return ""
	}
	return u.Path
}
