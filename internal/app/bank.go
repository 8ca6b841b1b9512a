package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	_ "time/tzdata" // cut-offs are in the bank's own zone, whatever the machine knows of zones

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
)

// bankDrop is where files for the bank are left, and from which accounts it pays; nil without one.
func (c Config) bankDrop() (*bank.Drop, []bank.Account, error) {
	if c.BankDir == "" && c.BankSFTP == "" {
		if c.BankAccounts != "" {
			return nil, nil, errors.New("--bank-accounts needs --bank-dir or --bank-sftp: where do its files go?")
		}
		return nil, nil, nil
	}
	if c.BankDir != "" && c.BankSFTP != "" {
		return nil, nil, errors.New("--bank-dir and --bank-sftp are two places; choose one")
	}
	if c.BankAccounts == "" {
		return nil, nil, errors.New("--bank-accounts is missing: nobody knows from which accounts the bank pays")
	}
	accounts, err := c.OperatorBankAccounts()
	if err != nil {
		return nil, nil, err
	}
	if c.BankDir != "" {
		drop, err := bank.OpenFolder(c.BankDir)
		return drop, accounts, err
	}
	at, err := url.Parse(c.BankSFTP)
	if err != nil || at.Scheme != "sftp" || at.User == nil || at.Hostname() == "" {
		return nil, nil, errors.New("--bank-sftp must be sftp://user@host:22/directory")
	}
	s := bank.SFTP{Address: at.Host, User: at.User.Username(), Root: strings.TrimPrefix(at.Path, "/")}
	if strings.HasPrefix(at.Path, "//") {
		s.Root = strings.TrimPrefix(at.Path, "/") // sftp://host//srv is /srv on the server
	}
	if at.Port() == "" {
		s.Address = net.JoinHostPort(at.Hostname(), "22")
	}
	for _, file := range []struct {
		flag, name string
		to         *[]byte
	}{{"--bank-sftp-key-file", c.BankSFTPKeyFile, &s.Key}, {"--bank-sftp-host-key-file", c.BankSFTPHostKeyFile, &s.HostKey}} {
		if file.name == "" {
			return nil, nil, fmt.Errorf("%s is missing: a server of the bank is not trusted without", file.flag)
		}
		if *file.to, err = os.ReadFile(file.name); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	drop, err := bank.OpenSFTP(s)
	return drop, accounts, err
}

// OperatorBankAccounts are the house's accounts at banks, none without.
func (c Config) OperatorBankAccounts() ([]bank.Account, error) {
	if c.BankAccounts == "" {
		if c.Env == Sandbox {
			return bank.SandboxAccounts(), nil
		}
		return nil, nil
	}
	f, err := os.Open(c.BankAccounts)
	if err != nil {
		return nil, fmt.Errorf("--bank-accounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	accounts, err := bank.ReadAccounts(f)
	if err != nil {
		return nil, fmt.Errorf("--bank-accounts: %w", err)
	}
	return accounts, nil
}

// bankRail returns the rail that pays by a bank, or nil where none is configured. A sandbox without a bank has a simulated one.
func (s *Service) bankRail() (*bank.Rail, error) {
	drop, accounts, err := s.cfg.bankDrop()
	if err != nil {
		return nil, err
	}
	c := bank.Config{Drop: drop, Accounts: accounts, Sealer: s.sealer, Log: s.log, Reveal: func(snapshot json.RawMessage) (bank.Destination, error) {
		var d destination.Distribution
		if err := json.Unmarshal(snapshot, &d); err != nil {
			return bank.Destination{}, err
		}
		data, err := destination.Reveal(s.sealer, d)
		return bank.Destination{Country: d.Country, Scheme: d.Scheme, Data: data}, err
	}, Changed: s.correction(destination.Setup{Sealer: s.sealer})}
	c.Statement = func(ctx context.Context, d *db.DB, statement io.Reader, parts []bank.Part) ([]string, error) {
		sum, err := bankreceipt.Import(ctx, d, statement, c.Accounts, parts...)
		if err != nil && !apierr.Passing(err) {
			return append(sum.Problems, err.Error()), nil // reading it again would not help
		}
		return sum.Problems, err
	}
	if drop == nil && s.cfg.Env == Sandbox {
		root, err := s.sandboxBank()
		if err != nil {
			return nil, err
		}
		if c.Drop, s.playedBank, err = bank.OpenSandbox(root); err != nil {
			return nil, err
		}
		c.Accounts = bank.SandboxAccounts()
		c.Simulate = func(ctx context.Context) error {
			now, err := s.db.Now(ctx)
			if err != nil {
				return err
			}
			return s.playedBank.ProcessFiles(now)
		}
	}
	if c.Drop == nil {
		return nil, nil
	}
	return bank.New(c)
}

// correction records what a bank wants changed about a destination.
func (s *Service) correction(setup destination.Setup) func(ctx context.Context, tx *db.Tx, o payout.Output, code string, c nacha.Correction) error {
	return func(ctx context.Context, tx *db.Tx, o payout.Output, code string, c nacha.Correction) error {
		a := destination.Asked{
			CompanyID: o.CompanyID, Code: code, Reason: nacha.ReasonText(code), Members: map[string]string{}, PayrollID: o.PayrollID, PaymentID: o.PaymentID, OutputID: o.ID,
		}
		for name, value := range map[string]string{"routing_number": c.Routing, "account_number": c.Account, "account_type": c.Type, "account_holder_name": c.Name} {
			if value != "" {
				a.Members[name] = value
			}
		}
		if err := json.Unmarshal(o.Destination, &a.Was); err != nil {
			return err
		}
		err := destination.AskCorrection(ctx, tx, setup, a)
		if _, refused := apierr.As(err); refused && !apierr.Passing(err) {
			s.log.ErrorContext(ctx, "a bank wants a destination put right as none can be", "company_id", o.CompanyID, "output_id", o.ID, "code", code, "error", err)
			return nil
		}
		return err
	}
}

// sandboxBank is the folder between the sandbox and its bank: beside an embedded database, else one of this process.
func (s *Service) sandboxBank() (string, error) {
	if path, embedded := strings.CutPrefix(s.cfg.URL(), "sqlite:"); embedded {
		return strings.TrimPrefix(path, "//") + ".bank", nil
	}
	root, err := os.MkdirTemp("", "stipend-bank-")
	s.bankFolder = root
	return root, err
}
