package ui

import (
	"context"
	"errors"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/auth/session"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ratelimit"
)

// Concurrent password checks per process; each uses 64 MiB. Staff have a queue of their own, so that other sign-ins
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
	// Its sender has signed in or used a link from an email.
	err = c.HashInTurn(ctx, c.Passwords, true, func() (err error) {
		hash, err = identity.HashPassword(c.Form.Get("new_password"))
		return err
	})
	return hash, err
}

// HashInTurn runs a function that hashes a password as soon as the queue permits. Known clients come first. The form is
// shown again if too many clients wait.
func (c *Request) HashInTurn(ctx context.Context, q *ratelimit.Queue, known bool, run func() error) error {
	err := q.Do(ctx, session.Network(c.RemoteAddr()).String(), known, run)
	if errors.Is(err, ratelimit.ErrBusy) {
		return ratelimit.ErrBusy.At("body", "")
	}
	return err
}
