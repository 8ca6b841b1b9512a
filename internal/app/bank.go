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
	"slices"
	"strings"
	_ "time/tzdata" // cut-off times are in the time zone of the bank, also on machines without time zones

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/column"
	"github.com/stipend/stipend/internal/payout/bank/increase"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payroll"
)

// bankDrop returns the place where files are exchanged with the bank, nil if there is none, and the accounts that it
// pays from.
func (c Config) bankDrop() (*bank.Drop, []bank.Account, error) {
	switch {
	case c.BankDir == "" && c.BankSFTP == "" && c.BankAccounts == "":
		return nil, nil, nil
	case c.BankDir != "" && c.BankSFTP != "":
		return nil, nil, errors.New("--bank-dir and --bank-sftp exclude each other; choose one")
	case c.BankAccounts == "":
		return nil, nil, errors.New("--bank-accounts is missing: it lists the accounts that the bank pays from")
	}
	accounts, err := c.OperatorBankAccounts()
	if err != nil {
		return nil, nil, err
	}
	if c.BankDir == "" && c.BankSFTP == "" {
		if slices.ContainsFunc(accounts, func(a bank.Account) bool { return !a.ByAPI() }) {
			return nil, nil, errors.New("--bank-accounts needs --bank-dir or --bank-sftp to exchange files with the bank")
		}
		return nil, accounts, nil
	}
	if c.BankDir != "" {
		drop, err := bank.OpenFolder(c.BankDir)
		return drop, accounts, err
	}
	server, err := c.bankSFTP()
	if err != nil {
		return nil, nil, err
	}
	drop, err := bank.OpenSFTP(server)
	return drop, accounts, err
}

// bankAPIs returns the APIs of the accounts that have one, by account ID.
func (c Config) bankAPIs(accounts []bank.Account) (map[string]bank.API, error) {
	apis := map[string]bank.API{}
	for _, a := range accounts {
		var api bank.API
		var err error
		switch {
		case a.Format == bank.FormatIncrease && c.IncreaseKey == "":
			err = fmt.Errorf("--increase-key is missing: the bank account %s needs it", a.ID)
		case a.Format == bank.FormatIncrease:
			api, err = increase.New(c.IncreaseURL, c.IncreaseKey)
		case a.Format == bank.FormatColumn && c.ColumnKey == "":
			err = fmt.Errorf("--column-key is missing: the bank account %s needs it", a.ID)
		case a.Format == bank.FormatColumn:
			api, err = column.New(c.ColumnURL, c.ColumnKey)
		}
		if err != nil {
			return nil, err
		}
		if api != nil {
			apis[a.ID] = api
		}
	}
	return apis, nil
}

// bankSFTP returns the SFTP server of the bank. In sftp://host//srv the directory is /srv on the server, in
// sftp://host/srv it is relative to the user's.
func (c Config) bankSFTP() (s bank.SFTP, err error) {
	at, err := url.Parse(c.BankSFTP)
	if err != nil || at.Scheme != "sftp" || at.User == nil || at.Hostname() == "" {
		return s, errors.New("--bank-sftp must be sftp://user@host:22/directory")
	}
	s = bank.SFTP{Address: at.Host, User: at.User.Username(), Root: strings.TrimPrefix(at.Path, "/")}
	if at.Port() == "" {
		s.Address = net.JoinHostPort(at.Hostname(), "22")
	}
	if s.Key, err = readBankFile("--bank-sftp-key-file", c.BankSFTPKeyFile); err != nil {
		return s, err
	}
	s.HostKey, err = readBankFile("--bank-sftp-host-key-file", c.BankSFTPHostKeyFile)
	return s, err
}

func readBankFile(flag, name string) ([]byte, error) {
	if name == "" {
		return nil, fmt.Errorf("%s is missing: the service and the bank's server authenticate by keys", flag)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}

// OperatorBankAccounts returns the operator's accounts at banks, none if none is configured.
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

// bankRail returns the rail that pays by bank, nil if none is configured. A sandbox without a bank has a simulated one.
func (s *Service) bankRail() (*bank.Rail, error) {
	drop, accounts, err := s.cfg.bankDrop()
	if err != nil {
		return nil, err
	}
	apis, err := s.cfg.bankAPIs(accounts)
	if err != nil {
		return nil, err
	}
	c := bank.Config{
		Drop: drop, Accounts: accounts, APIs: apis, Sealer: s.sealer, Log: s.log,
		Reveal: s.revealBankDestination, Details: s.paymentDetails, Changed: s.recordBankCorrection,
	}
	if len(accounts) == 0 && s.cfg.Env == Sandbox {
		if err := s.simulateBank(&c); err != nil {
			return nil, err
		}
	}
	if len(c.Accounts) == 0 {
		return nil, nil
	}
	c.Statement = func(ctx context.Context, d *db.DB, statement io.Reader, parts []bank.Part) ([]string, error) {
		sum, err := bankreceipt.Import(ctx, d, statement, c.Accounts, parts...)
		if err != nil && !apierr.Passing(err) {
			return append(sum.Problems, err.Error()), nil // reading the statement again would not help
		}
		return sum.Problems, err
	}
	return bank.New(c)
}

// simulateBank completes c with a simulated bank. Its directory is next to an embedded database, otherwise a temporary
// one.
func (s *Service) simulateBank(c *bank.Config) (err error) {
	path, embedded := strings.CutPrefix(s.cfg.URL(), "sqlite:")
	dir := strings.TrimPrefix(path, "//") + ".bank"
	if !embedded {
		if dir, err = os.MkdirTemp("", "stipend-bank-"); err != nil {
			return err
		}
		s.bankDir = dir
	}
	if c.Drop, s.simulatedBank, err = bank.OpenSandbox(dir); err != nil {
		return err
	}
	c.Accounts = bank.SandboxAccounts()
	c.Simulate = func(ctx context.Context) error {
		now, err := s.db.Now(ctx)
		if err != nil {
			return err
		}
		return s.simulatedBank.ProcessFiles(now)
	}
	return nil
}

// revealBankDestination decrypts the destination of an output.
func (s *Service) revealBankDestination(snapshot json.RawMessage) (bank.Destination, error) {
	var d destination.Destination
	if err := json.Unmarshal(snapshot, &d); err != nil {
		return bank.Destination{}, err
	}
	data, err := destination.Reveal(s.sealer, d)
	return bank.Destination{Country: d.Country, Scheme: d.Scheme, Data: data}, err
}

// paymentDetails returns what outputs of a company or user pay, with the address of the company or user.
func (s *Service) paymentDetails(ctx context.Context, tx *db.Tx, companyID string,
	outs []payout.Output) (map[string]payout.Details, error) {
	if identity.IsUser(companyID) {
		return income.Details(ctx, tx, s.sealer, companyID, outs)
	}
	all, err := payroll.Details(ctx, tx, companyID, outs)
	if err != nil {
		return nil, err
	}
	p, err := s.kyc.CompanyProfile(ctx, tx, companyID)
	for id, d := range all {
		d.PayerStreet, d.PayerPostCode, d.PayerTown, d.PayerState = p.StreetAddress, p.Zip, p.City, p.State
		all[id] = d
	}
	return all, err
}

// recordBankCorrection records that a bank wants the destination of an output changed before the next payment.
func (s *Service) recordBankCorrection(
	ctx context.Context, tx *db.Tx, o payout.Output, code string, c nacha.Correction,
) error {
	a := destination.Asked{
		CompanyID: o.CompanyID, PayrollID: o.PayrollID, PaymentID: o.PaymentID, OutputID: o.ID,
		Code: code, Reason: nacha.ReasonText(code), Members: map[string]string{},
	}
	for name, value := range map[string]string{
		"routing_number": c.Routing, "account_number": c.Account, "account_type": c.Type, "account_holder_name": c.Name,
	} {
		if value != "" {
			a.Members[name] = value
		}
	}
	if err := json.Unmarshal(o.Destination, &a.Was); err != nil {
		return err
	}
	err := destination.AskCorrection(ctx, tx, destination.Setup{Sealer: s.sealer}, a)
	if _, refused := apierr.As(err); refused && !apierr.Passing(err) {
		s.log.ErrorContext(ctx, "a bank's correction of a destination is not valid; ask the payee",
			"company_id", o.CompanyID, "output_id", o.ID, "code", code, "error", err)
		return nil
	}
	return err
}
