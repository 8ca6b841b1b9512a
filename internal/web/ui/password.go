package ui

import (
	"context"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/identity"
)

// Concurrent password checks per process; each uses 64 MiB. Staff have a slot of their own, so that other sign-ins
// cannot block theirs.
const (
	MaxPasswordChecks      = 2
	maxStaffPasswordChecks = 1
)

// NewPassword checks and hashes the posted new password. If rest, the error of the other fields, has problems too,
// all are returned together.
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

// HashNewPassword hashes the posted new_password without checking it.
func (c *Request) HashNewPassword(ctx context.Context) (hash string, err error) {
	err = WithSlot(ctx, c.PasswordSlots, func() (err error) {
		hash, err = identity.HashPassword(c.Form.Get("new_password"))
		return err
	})
	return hash, err
}

// WithSlot runs a function that hashes a password as soon as one of the slots is free.
func WithSlot(ctx context.Context, places chan struct{}, run func() error) error {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		return run()
	case <-ctx.Done():
		return ctx.Err()
	}
}
