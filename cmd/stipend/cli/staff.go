package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/sandbox"
)

// OperatorsCmd groups the commands about the house's own people.
type OperatorsCmd struct {
	Add    OperatorsAddCmd    `cmd:"" help:"Make an operator; shows the password and the authenticator's secret, once."`
	List   OperatorsListCmd   `cmd:"" help:"List the operators."`
	Reset  OperatorsResetCmd  `cmd:"" help:"Give an operator another password and secret, and end their sessions."`
	Remove OperatorsRemoveCmd `cmd:"" help:"Remove an operator, and end their sessions."`
}

// StaffCredentials is what commands need that make credentials.
type StaffCredentials struct {
	app.Storage
	DataKey string `env:"STIPEND_DATA_KEY" placeholder:"KEY" help:"The data key that serve has; the sandbox's when absent."`
	Email   string `arg:"" help:"Email address of the operator."`
}

// make runs what makes credentials, and shows them.
func (c StaffCredentials) make(ctx context.Context, std Streams, what func(ctx context.Context, tx *db.Tx, s *identity.Sealer) (backoffice.Operator, backoffice.Credentials, error)) error {
	key := sandbox.DataKey()
	if c.DataKey != "" {
		var err error
		if key, err = app.ParseDataKey(c.DataKey); err != nil {
			return err
		}
	}
	sealer, err := identity.NewSealer(key)
	if err != nil {
		return err
	}
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		var o backoffice.Operator
		var made backoffice.Credentials
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			o, made, err = what(ctx, tx, sealer)
			return err
		}); err != nil {
			return err
		}
		fmt.Fprintf(std.Out, "%s <%s> signs in at /operations.\nPassword       %s\nAuthenticator  %s\n               %s\nThis is shown once.\n", o.Name, o.Email, made.Password, made.Secret, made.URI)
		return nil
	})
}

// OperatorsAddCmd makes an operator.
type OperatorsAddCmd struct {
	StaffCredentials
	Name string `required:"" help:"Name, as others read it in what was done."`
}

// Run makes one.
func (c OperatorsAddCmd) Run(ctx context.Context, std Streams) error {
	if strings.TrimSpace(c.Name) == "" {
		return errors.New("--name must say something")
	}
	return c.make(ctx, std, func(ctx context.Context, tx *db.Tx, s *identity.Sealer) (backoffice.Operator, backoffice.Credentials, error) {
		return backoffice.Add(ctx, tx, s, c.Name, c.Email)
	})
}

// OperatorsResetCmd gives an operator other credentials.
type OperatorsResetCmd struct{ StaffCredentials }

// Run resets.
func (c OperatorsResetCmd) Run(ctx context.Context, std Streams) error {
	return c.make(ctx, std, func(ctx context.Context, tx *db.Tx, s *identity.Sealer) (backoffice.Operator, backoffice.Credentials, error) {
		return backoffice.Reset(ctx, tx, s, c.Email)
	})
}

// OperatorsRemoveCmd removes an operator.
type OperatorsRemoveCmd struct {
	app.Storage
	Email string `arg:"" help:"Email address of the operator."`
}

// Run removes.
func (c OperatorsRemoveCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return backoffice.Remove(ctx, tx, c.Email) })
		if err == nil {
			fmt.Fprintln(std.Out, "Removed.")
		}
		return err
	})
}

// OperatorsListCmd lists the operators.
type OperatorsListCmd struct{ app.Storage }

// Run prints them.
func (c OperatorsListCmd) Run(ctx context.Context, std Streams) error {
	return withDB(ctx, c.Storage, func(ctx context.Context, d *db.DB) error {
		return d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
			all, err := backoffice.List(ctx, tx)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(std.Out, 0, 4, 2, ' ', 0)
			fmt.Fprintln(t, "OPERATOR\tNAME\tEMAIL\tSINCE")
			for _, o := range all {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", o.ID, o.Name, o.Email, o.Created.Format(time.DateOnly))
			}
			return t.Flush()
		})
	})
}
