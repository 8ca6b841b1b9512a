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
	errPasskey   = apierr.New(apierr.Invalid, "passkey_failed", "The device's answer does not fit. Try again, or use another way in.")
	errNoPasskey = apierr.New(apierr.Conflict, "invalid_state", "Passkeys work at a name only, not at the number of a machine.")
)

// passkeys is whom passkeys are made for at this address, nil where there can be none: they belong to a name. A sandbox of this
// machine that goes by its number has one at localhost.
func passkeys(c *ui.Request) *auth.Relying {
	origin := c.BaseURL
	u, err := url.Parse(origin)
	if err != nil {
		return nil
	}
	asked := c.HTTP.Host
	if name, _, err := net.SplitHostPort(asked); err == nil {
		asked = name
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil && c.Env == identity.Sandbox && asked == "localhost" {
		u.Host, origin = c.HTTP.Host, "http://"+c.HTTP.Host
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil || u.Hostname() != asked {
		return nil
	}
	r, err := auth.NewRelying(origin)
	if err != nil {
		return nil
	}
	return r
}

// passkeyPage asks the reader's device.
type passkeyPage struct {
	Path, Next, Lead string
	Options          string // what the device is asked, as JSON
	Fields           []ui.Field
	Send             string
}

func renderPasskeyPage(c *ui.Request, title string, p passkeyPage) ui.View {
	return ui.View{Template: "passkey", Title: c.Text(title), Data: p}
}

// beginPasskeySignIn asks for a passkey instead of a password; also of who is signed in, to show it again.
func beginPasskeySignIn(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	options, err := r.BeginSignIn(ctx, tx)
	return renderPasskeyPage(c, "passkey.title", passkeyPage{
		Path: "/sign-in/passkey/answer", Next: c.NextPath(), Lead: c.Text("passkey.lead"), Options: options, Send: c.Text("passkey.use"),
	}), err
}

// signInByPasskey begins a session that has shown a second factor: a passkey is one, and the person too.
func signInByPasskey(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	right, token := false, ""
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, ok, err := r.SignIn(ctx, tx, c.Form.Get("credential"))
		if right = ok; err != nil || !ok {
			return err
		}
		before, err := c.FindSession(ctx, tx)
		if err != nil {
			return err
		}
		if err := session.End(ctx, tx, c.SessionToken()); err != nil {
			return err
		}
		if token, err = session.StartProven(ctx, tx, u.ID); err != nil || !before || c.Session.User.ID != u.ID || c.Session.Company.ID == "" {
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
	return ui.View{Redirect: c.NextPath(), Cookie: c.SessionCookie(token)}, nil
}

type passkeysPage struct {
	Can      bool // whether one can be made at this address
	Passkeys []passkeyShown
}

type passkeyShown struct {
	auth.Passkey
	Since, Used string
}

// showPasskeys lists the reader's passkeys.
func showPasskeys(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	all, err := auth.Passkeys(ctx, tx, c.Session.User.ID)
	p := passkeysPage{Can: passkeys(c) != nil}
	for _, k := range all {
		p.Passkeys = append(p.Passkeys, passkeyShown{k, ui.FormatDay(k.Created), ui.FormatDay(k.LastUsed)})
	}
	return ui.View{Template: "passkeys", Title: c.Text("passkeys.title"), Data: p}, err
}

// beginPasskey asks the reader's device for a new passkey.
func beginPasskey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	options, err := r.BeginPasskey(ctx, tx, c.Session.User)
	return renderPasskeyPage(c, "passkeys.new", passkeyPage{
		Path: "/account/passkeys", Lead: c.Text("passkeys.new.lead"), Options: options, Send: c.Text("passkeys.new"),
		Fields: []ui.Field{c.Field(ui.Field{Name: "passkey_name", Required: true, Most: 100, Value: c.Text("passkeys.mine")})},
	}), err
}

// addPasskey takes the device's answer.
func addPasskey(ctx context.Context, _ *db.Tx, c *ui.Request) (ui.View, error) {
	r := passkeys(c)
	if r == nil {
		return ui.View{}, errNoPasskey
	}
	right := false
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		right, err = r.AddPasskey(ctx, tx, person(c), c.Form.Get("passkey_name"), c.Form.Get("credential"))
		return err
	})
	if err == nil && !right {
		err = errPasskey.At("body", "")
	}
	return ui.View{Redirect: "/account/passkeys"}, err
}

// renamePasskey calls a passkey something else.
func renamePasskey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/account/passkeys"}, auth.RenamePasskey(ctx, tx, c.Session.User.ID, c.HTTP.PathValue("id"), c.Form.Get("passkey_name"))
}

// removePasskey forgets one.
func removePasskey(ctx context.Context, tx *db.Tx, c *ui.Request) (ui.View, error) {
	return ui.View{Redirect: "/account/passkeys"}, auth.RemovePasskey(ctx, tx, person(c), c.HTTP.PathValue("id"))
}
