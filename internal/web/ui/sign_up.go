package ui

import (
	"context"
	"net/netip"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
)

// NewPasswordField asks for a password that is chosen now.
func (c *Request) NewPasswordField() Field {
	return c.Field(Field{Name: "new_password", Type: "password", Autocomplete: "new-password", Required: true, Most: identity.MaxPassword})
}

// RemoteAddr is the network address that asks.
func (c *Request) RemoteAddr() netip.Addr {
	at, err := netip.ParseAddrPort(c.HTTP.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr()
}

// NewPassword is the hash of the password that was chosen, unless something is wrong with it or was with the rest of the form.
func (c *Request) NewPassword(ctx context.Context, email string, rest error) (hash string, err error) {
	var problems apierr.List
	if f, ok := apierr.As(rest); ok {
		for _, field := range f.Fields {
			problems.Add(field.Code, field.Pointer, field.Message)
		}
	} else if rest != nil {
		return "", rest
	}
	identity.CheckNewPassword(&problems, "/new_password", c.Form.Get("new_password"), email)
	if err := problems.Err(); err != nil {
		return "", err
	}
	return c.HashNewPassword(ctx)
}

// HashNewPassword hashes the password that was posted as new_password.
func (c *Request) HashNewPassword(ctx context.Context) (hash string, err error) {
	err = Hash(ctx, c.PasswordSlots, func() (err error) {
		hash, err = identity.HashPassword(c.Form.Get("new_password"))
		return err
	})
	return hash, err
}
