package web

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
)

var (
	errPasskey   = apierr.New(apierr.Invalid, "passkey_failed", "The device's answer does not fit. Try again, or use another way in.")
	errNoPasskey = apierr.New(apierr.Conflict, "invalid_state", "Passkeys work at a name only, not at the number of a machine.")
)

// passkeys is whom passkeys are made for at this address, nil where there can be none: they belong to a name. A sandbox of this
// machine that goes by its number has one at localhost.
func (c *call) passkeys() *auth.Relying {
	origin := c.BaseURL
	u, err := url.Parse(origin)
	if err != nil {
		return nil
	}
	asked := c.r.Host
	if name, _, err := net.SplitHostPort(asked); err == nil {
		asked = name
	}
	if _, err := netip.ParseAddr(u.Hostname()); err == nil && c.Env == identity.Sandbox && asked == "localhost" {
		u.Host, origin = c.r.Host, "http://"+c.r.Host
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
	Fields           []field
	Send             string
}

func (c *call) passkeyPage(title string, p passkeyPage) view {
	return view{page: "passkey", title: c.text(title), data: p}
}

// beginPasskeySignIn asks for a passkey instead of a password; also of who is signed in, to show it again.
func beginPasskeySignIn(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r := c.passkeys()
	if r == nil {
		return view{}, errNoPasskey
	}
	options, err := r.BeginSignIn(ctx, tx)
	return c.passkeyPage("passkey.title", passkeyPage{
		Path: "/sign-in/passkey/answer", Next: c.next(), Lead: c.text("passkey.lead"), Options: options, Send: c.text("passkey.use"),
	}), err
}

// signInByPasskey begins a session that has shown a second factor: a passkey is one, and the person too.
func signInByPasskey(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	r := c.passkeys()
	if r == nil {
		return view{}, errNoPasskey
	}
	right, token := false, ""
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		u, ok, err := r.SignIn(ctx, tx, c.form.Get("credential"))
		if right = ok; err != nil || !ok {
			return err
		}
		before, err := c.find(ctx, tx)
		if err != nil {
			return err
		}
		if err := session.End(ctx, tx, c.token()); err != nil {
			return err
		}
		if token, err = session.StartProven(ctx, tx, u.ID); err != nil || !before || c.session.User.ID != u.ID || c.session.Company.ID == "" {
			return err
		}
		s, err := session.Find(ctx, tx, token)
		if err != nil {
			return err
		}
		return session.ActFor(ctx, tx, s, c.session.Company.ID)
	})
	c.session = nil
	switch {
	case err != nil:
		return view{}, err
	case !right:
		return view{}, errPasskey.At("body", "")
	}
	return view{redirect: c.next(), cookie: c.cookie(token)}, nil
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
func showPasskeys(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	all, err := auth.Passkeys(ctx, tx, c.session.User.ID)
	p := passkeysPage{Can: c.passkeys() != nil}
	for _, k := range all {
		p.Passkeys = append(p.Passkeys, passkeyShown{k, when(k.Created), when(k.LastUsed)})
	}
	return view{page: "passkeys", title: c.text("passkeys.title"), data: p}, err
}

// beginPasskey asks the reader's device for a new passkey.
func beginPasskey(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	r := c.passkeys()
	if r == nil {
		return view{}, errNoPasskey
	}
	options, err := r.BeginPasskey(ctx, tx, c.session.User)
	return c.passkeyPage("passkeys.new", passkeyPage{
		Path: "/account/passkeys", Lead: c.text("passkeys.new.lead"), Options: options, Send: c.text("passkeys.new"),
		Fields: []field{c.field(field{Name: "passkey_name", Required: true, Most: 100, Value: c.text("passkeys.mine")})},
	}), err
}

// addPasskey takes the device's answer.
func addPasskey(ctx context.Context, _ *db.Tx, c *call) (view, error) {
	r := c.passkeys()
	if r == nil {
		return view{}, errNoPasskey
	}
	right := false
	err := c.DB.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		right, err = r.AddPasskey(ctx, tx, c.person(), c.form.Get("passkey_name"), c.form.Get("credential"))
		return err
	})
	if err == nil && !right {
		err = errPasskey.At("body", "")
	}
	return view{redirect: "/account/passkeys"}, err
}

// renamePasskey calls a passkey something else.
func renamePasskey(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/account/passkeys"}, auth.RenamePasskey(ctx, tx, c.session.User.ID, c.r.PathValue("id"), c.form.Get("passkey_name"))
}

// removePasskey forgets one.
func removePasskey(ctx context.Context, tx *db.Tx, c *call) (view, error) {
	return view{redirect: "/account/passkeys"}, auth.RemovePasskey(ctx, tx, c.person(), c.r.PathValue("id"))
}
