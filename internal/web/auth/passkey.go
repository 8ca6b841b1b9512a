package auth

import (
	"context"
	"net"
	"net/netip"
	"net/url"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/web/ui"
)

var (
	errPasskey = apierr.New(apierr.Invalid, "passkey_failed",
		"The passkey could not be verified. Try again, or sign in another way.")
	errNoPasskey = apierr.New(apierr.Conflict, "invalid_state",
		"Passkeys need a host name, such as localhost. They do not work at an IP address.")
)

// passkeys returns the relying party for this address, or nil if passkeys cannot work: they belong to a host name,
// not to an IP address. A sandbox that is configured with a loopback address supports them at localhost.
func passkeys(c *ui.Request) *auth.Relying {
	origin := c.BaseURL
	u, err := url.Parse(origin)
	if err != nil {
		return nil
	}
	host := c.HTTP.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil && c.Env == identity.Sandbox && host == "localhost" {
		u.Host, origin = c.HTTP.Host, "http://"+c.HTTP.Host
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil || u.Hostname() != host {
		return nil
	}
	r, err := auth.NewRelying(origin, c.OperatorName())
	if err != nil {
		return nil
	}
	return r
}

// CanUsePasskeys reports whether passkeys work at the address of a request.
func CanUsePasskeys(c *ui.Request) bool { return passkeys(c) != nil }

// passkeyPage asks the browser for a passkey.
type passkeyPage struct {
	Path, Next, Lead string
	Options          string // WebAuthn options, as JSON
	Fields           []ui.Field
	Send             string
}

func renderPasskeyPage(c *ui.Request, title string, p passkeyPage) ui.View {
	return ui.View{Template: "passkey", Title: c.Text(title), Data: p}
}

// beginPasskeySignIn asks for a passkey, to sign in or to prove a second factor.
func beginPasskeySignIn(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	options, err := r.BeginSignIn(ctx, tx)
	return renderPasskeyPage(c, "passkey.title", passkeyPage{
		Path: "/sign-in/passkey/answer", Next: c.Next(), Lead: c.Text("passkey.lead"), Options: options,
		Send: c.Text("passkey.use"),
	}), err
}

// signInByPasskey starts a session that counts as proven with a second factor. If the same user was signed in, the
// new session acts for the same company.
func signInByPasskey(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	right, token, to := false, "", ""
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, ok, err := r.SignIn(ctx, tx, c.Form.Get("credential"))
		if right = ok; err != nil || !ok {
			return err
		}
		c.Author = u.ID
		if to, err = afterSignIn(ctx, tx, c, u.ID); err != nil {
			return err
		}
		before, err := c.FindSession(ctx, tx)
		if err != nil {
			return err
		}
		token, err = session.StartProven(ctx, tx, u.ID, c.SessionToken())
		if err != nil || !before || c.Session.User.ID != u.ID || c.Session.Company.ID == "" {
			return err
		}
		s, err := session.Find(ctx, tx, token)
		if err != nil {
			return err
		}
		return session.ActFor(ctx, tx, s, c.Session.Company.ID)
	})
	c.Session = nil
	switch {
	case err != nil:
		return ui.View{}, err
	case !right:
		return ui.View{}, errPasskey.At("body", "")
	}
	return ui.View{Redirect: to, Cookie: c.SessionCookie(token)}, nil
}

type passkeysPage struct {
	Can      bool // passkeys work at this address
	Passkeys []passkeyRow
}

type passkeyRow struct {
	auth.Passkey
	Since, Used string
}

// showPasskeys lists the user's passkeys.
func showPasskeys(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := auth.Passkeys(ctx, tx, c.Session.User.ID)
	p := passkeysPage{Can: passkeys(c) != nil}
	for _, k := range all {
		p.Passkeys = append(p.Passkeys, passkeyRow{k, c.FormatTime(k.Created), c.FormatTime(k.LastUsed)})
	}
	return ui.View{Template: "passkeys", Title: c.Text("passkeys.title"), Data: p}, err
}

// beginPasskey asks the browser to create a passkey.
func beginPasskey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	options, err := r.BeginPasskey(ctx, tx, c.Session.User)
	return renderPasskeyPage(c, "passkeys.new", passkeyPage{
		Path: "/account/passkeys", Lead: c.Text("passkeys.new.lead"), Options: options, Send: c.Text("passkeys.new"),
		Fields: []ui.Field{c.Field(ui.Field{Name: "passkey_name", Required: true, MaxLength: 100,
			Value: c.Text("passkeys.mine")})},
	}), err
}

// addPasskey stores the new passkey that the browser returned.
func addPasskey(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	right := false
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		right, err = r.AddPasskey(ctx, tx, signedInUser(c), c.Form.Get("passkey_name"), c.Form.Get("credential"))
		return err
	})
	if err == nil && !right {
		err = errPasskey.At("body", "")
	}
	return ui.View{Redirect: "/account/passkeys"}, err
}

// renamePasskey changes the name of a passkey.
func renamePasskey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/account/passkeys"},
		auth.RenamePasskey(ctx, tx, c.Session.User.ID, c.HTTP.PathValue("id"), c.Form.Get("passkey_name"))
}

// removePasskey deletes a passkey.
func removePasskey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/account/passkeys"}, auth.RemovePasskey(ctx, tx, signedInUser(c), c.HTTP.PathValue("id"))
}
