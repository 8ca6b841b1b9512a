package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/sandbox"
)

// StaffCmd groups the commands for the operator's staff.
type StaffCmd struct {
	Add    StaffAddCmd    `cmd:"" help:"Add a member of staff, and print their credentials once."`
	List   StaffListCmd   `cmd:"" help:"List the staff."`
	Reset  StaffResetCmd  `cmd:"" help:"Give a member of staff new credentials, and end their sessions."`
	Role   StaffRoleCmd   `cmd:"" help:"Give a member of staff another role, and drop their open requests."`
	Remove StaffRemoveCmd `cmd:"" help:"Remove a member of staff, and end their sessions."`
}

// StaffCredentials contains the arguments of commands that create credentials.
type StaffCredentials struct {
	app.Storage
	app.DataKeys
	Email string `arg:"" help:"Email address of the member of staff."`
}

// newSealer returns a sealer with the data keys, or with the sandbox's data key if none is given.
func newSealer(keys app.DataKeys) (*identity.Sealer, error) {
	if keys.DataKey == "" {
		keys.DataKey = hex.EncodeToString(sandbox.DataKey())
	}
	return keys.Sealer()
}

// create prints the credentials that f creates.
func (c StaffCredentials) create(
	ctx context.Context, std Streams,
	f func(context.Context, *db.Tx, *identity.Sealer) (backoffice.StaffMember, backoffice.Credentials, error),
) error {
	sealer, err := newSealer(c.DataKeys)
	if err != nil {
		return err
	}
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		member, created, err := f(ctx, tx, sealer)
		return fmt.Sprintf("%s <%s> signs in at /operations.\nPassword       %s\nAuthenticator  %s\n               %s\n"+
			"This is shown once.", member.Name, member.Email, created.Password, created.Secret, created.URI), err
	})
}

// StaffAddCmd adds a member of staff.
type StaffAddCmd struct {
	StaffCredentials
	Name string `required:"" help:"Name, as the audit log shows it."`
	Role string `required:"" enum:"support,finance,compliance,admin" help:"Support, finance, compliance or admin."`
}

// Run adds the member and prints their credentials.
func (c StaffAddCmd) Run(ctx context.Context, std Streams) error {
	if err := required("--name", c.Name); err != nil {
		return err
	}
	return c.create(ctx, std, func(
		ctx context.Context, tx *db.Tx, s *identity.Sealer,
	) (backoffice.StaffMember, backoffice.Credentials, error) {
		return backoffice.Add(ctx, tx, s, c.Name, c.Email, backoffice.Role(c.Role))
	})
}

// StaffResetCmd gives a member of staff new credentials.
type StaffResetCmd struct{ StaffCredentials }

// Run prints the new credentials.
func (c StaffResetCmd) Run(ctx context.Context, std Streams) error {
	return c.create(ctx, std, func(
		ctx context.Context, tx *db.Tx, s *identity.Sealer,
	) (backoffice.StaffMember, backoffice.Credentials, error) {
		return backoffice.Reset(ctx, tx, s, c.Email)
	})
}

// StaffRoleCmd changes the role of a member of staff.
type StaffRoleCmd struct {
	app.Storage
	Email string `arg:"" help:"Email address of the member of staff."`
	Role  string `arg:"" enum:"support,finance,compliance,admin" help:"support, finance, compliance or admin."`
}

// Run changes the role.
func (c StaffRoleCmd) Run(ctx context.Context, std Streams) error {
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		return "Changed.", backoffice.SetRole(ctx, tx, c.Email, backoffice.Role(c.Role))
	})
}

// StaffRemoveCmd removes a member of staff.
type StaffRemoveCmd struct {
	app.Storage
	Email string `arg:"" help:"Email address of the member of staff."`
}

// Run removes the member.
func (c StaffRemoveCmd) Run(ctx context.Context, std Streams) error {
	return writeDB(ctx, c.Storage, std, func(ctx context.Context, tx *db.Tx) (string, error) {
		return "Removed.", backoffice.Remove(ctx, tx, c.Email)
	})
}

// StaffListCmd lists the staff.
type StaffListCmd struct{ app.Storage }

// Run prints the staff.
func (c StaffListCmd) Run(ctx context.Context, std Streams) error {
	return readDB(ctx, c.Storage, func(ctx context.Context, tx *db.Tx) error {
		all, err := backoffice.List(ctx, tx)
		if err != nil {
			return err
		}
		return table(std.Out, "ID\tNAME\tEMAIL\tROLE\tSINCE", func(row func(...any)) {
			for _, o := range all {
				row(o.ID, o.Name, o.Email, o.Role, o.Created.Format(time.DateOnly))
			}
		})
	})
}
