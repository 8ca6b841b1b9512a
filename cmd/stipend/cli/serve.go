package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/stipend/stipend/internal/app"
	"github.com/stipend/stipend/internal/signer"
)

// ServeCmd runs the service.
type ServeCmd struct {
	app.Config
}

// Help returns the details of the help.
func (ServeCmd) Help() string {
	return `The sandbox starts with one company, an API key and three workers, always the same, on a simulated Bitcoin
chain with a block each second. Money there is not real, and its keys are public.

Production (--env production) needs its own keys, node and database; it lists everything that is missing
at once. Create keys with: stipend keys new`
}

// Run serves requests until ctx is done.
func (s ServeCmd) Run(ctx context.Context, std Streams) error {
	if s.Env == app.Production {
		if err := refuseSecretArguments(os.Args); err != nil {
			return err
		}
	}
	if s.BitcoinXPrv != "" || s.EVMXPrv != "" {
		if _, err := signer.Harden(); err != nil {
			return err
		}
	}
	service, err := app.Start(ctx, s.Config, newLogger(std.Err, s.LogLevel))
	if err != nil {
		return err
	}
	if s.JSON {
		line, err := json.Marshal(service.Ready())
		if err != nil {
			return err
		}
		fmt.Fprintf(std.Out, "%s\n", line)
	} else {
		greet(std.Out, service.Ready())
	}
	return service.Wait(ctx)
}

// refuseSecretArguments returns an error if the program's arguments contain a secret key, because other users of the
// machine can see arguments.
func refuseSecretArguments(args []string) error {
	for _, a := range args {
		name, _, _ := strings.Cut(a, "=")
		if name == "--bitcoin-xprv" || name == "--evm-xprv" || name == "--data-key" || name == "--decrypt-data-keys" {
			return fmt.Errorf("%s must not be an argument, because other users of the machine can read it; set %s", name,
				"STIPEND_"+strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")))
		}
	}
	return nil
}

// MigrateCmd migrates the database.
type MigrateCmd struct {
	app.Storage
}

// Run migrates the database and prints its engine.
func (m MigrateCmd) Run(ctx context.Context, std Streams) error {
	engine, err := app.Migrate(ctx, m.Storage)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Out, "The %s database is up to date.\n", engine)
	return nil
}

// newLogger returns a logger that writes records of at least a level as JSON lines. It limits repeated errors to one
// line per minute.
func newLogger(w io.Writer, level string) *slog.Logger {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	return slog.New(app.LimitRepeats(app.WithTraceIDs(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l}))))
}

// greet prints the addresses of a service, and first steps to try.
func greet(w io.Writer, r app.Ready) {
	fmt.Fprintf(w, "Stipend %s is running (%s).\n\n", app.Version(), r.Environment)
	for _, line := range [][2]string{
		{"Interface", r.BaseURL}, {"Docs", under(r.BaseURL, "/docs")}, {"Contract", under(r.BaseURL, "/openapi.json")},
		{"Errors", under(r.BaseURL, "/docs/error-codes")}, {"Metrics", r.MetricsURL}, {"Database", r.Database},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "  %-10s %s\n", line[0], line[1])
		}
	}
	if r.Seed == nil || r.BaseURL == "" {
		return
	}
	fmt.Fprintf(w, greeting, r.Seed.CompanyID, r.Seed.APIKey, r.BaseURL, r.Seed.APIKey, r.Seed.CompanyID,
		r.Seed.Workers[0].UserID, r.Seed.Workers[1].UserID, r.BaseURL, r.BaseURL, r.Seed.Admin.Email, r.Seed.Admin.Password)
}

const greeting = `
  Company    %s
  API key    %s

Create a payroll (copy the lines as they are; the shell keeps its id):

  BASE=%s
  AUTH='Authorization: Basic %s'
  ID=$(curl -sw '\n' $BASE/api/company/payroll/create -H "$AUTH" -H 'Content-Type: application/json' \
    -H "Idempotency-Key: $(date +%%s)" \
    -d '{"company_id":"%s","currency":"USD","to_pay":[
         {"user_id":"%s","amount_fiat":100.00},
         {"user_id":"%s","amount_fiat":250.00}]}' | tee /dev/stderr | grep -o 'prl_[0-9a-z]*')

Pay it, and a few seconds later see it fulfilled:

  curl -sw '\n' $BASE/api/sandbox/deposit -H "$AUTH" -H 'Content-Type: application/json' \
    -d '{"payroll_id":"'$ID'","kind":"exact"}'
  curl -sw '\n' $BASE/api/company/payrolls/$ID -H "$AUTH"

In a browser: %s/sandbox/verifications approves verifications; at %s/sign-in,
sign in as %s with the password %s.

Everything here is a simulation with public keys. Stop with Ctrl-C.
`

// under returns the address of a path below base, or "" if base is empty.
func under(base, path string) string {
	if base == "" {
		return ""
	}
	return base + path
}
