package web

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"regexp"
	"slices"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/mail"
)

// mailsShown is how many mails a page lists.
const mailsShown = 50

// here says whether the reader sits at the machine of a sandbox that is for this machine only. Behind a proxy everybody seems to,
// so the address at which browsers find the pages must be of this machine as well, and the one that was asked for: neither a proxy
// that says so itself, nor a page elsewhere whose name was made to lead here, reads what is for who sits here.
func (c *call) here() bool {
	u, err := url.Parse(c.BaseURL)
	if err != nil || c.Env != identity.Sandbox {
		return false
	}
	asked := url.URL{Host: c.r.Host}
	from := url.URL{Host: c.r.RemoteAddr}
	forwarded := slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host"}, func(name string) bool { return c.r.Header.Get(name) != "" })
	return isHome(u.Hostname()) && isHome(asked.Hostname()) && isHome(from.Hostname()) && !forwarded
}

// isHome says whether a name is this machine's own, wherever it is looked up.
func isHome(name string) bool {
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

type mailShown struct {
	mail.Kept
	At   string
	Link string // that it is about, "" without
}

// showMails lists what a sandbox without a mail server would have sent: to who manages a company, that company's mails; at the
// machine itself also those on no company's behalf, with which accounts begin.
func showMails(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	signedIn, err := c.find(ctx, tx)
	if err != nil {
		return view{}, err
	}
	var all []mail.Kept
	if c.here() {
		if all, _, err = mail.List(ctx, tx, "", 0, mailsShown); err != nil {
			return view{}, err
		}
	}
	switch {
	case signedIn && c.session.Manages():
		own, _, err := mail.List(ctx, tx, c.session.Company.ID, 0, mailsShown)
		if err != nil {
			return view{}, err
		}
		all = append(all, own...)
	case c.here():
	case signedIn:
		return view{}, errRole
	default:
		return view{redirect: c.signInFirst()}, nil
	}
	slices.SortStableFunc(all, func(a, b mail.Kept) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	shown := []mailShown{}
	for _, m := range all[:min(len(all), mailsShown)] {
		shown = append(shown, mailShown{m, when(m.Created), c.linkIn(m.Text)})
	}
	return view{page: "mails", title: c.text("mails.title"), data: shown}, nil
}

var address = regexp.MustCompile(`(?m)^https?://\S+$`)

// linkIn is the path of these pages that a mail leads to.
func (c *call) linkIn(text string) string {
	u, err := url.Parse(address.FindString(text))
	if err != nil || u.Path == "" {
		return ""
	}
	return u.Path
}
