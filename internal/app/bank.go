package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // cut-off times need the bank's time zone, also on machines without time zone data

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/bankreceipt"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/directdebit"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/income"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payee/destination"
	"github.com/stipend/stipend/internal/payout"
	"github.com/stipend/stipend/internal/payout/bank"
	"github.com/stipend/stipend/internal/payout/bank/column"
	"github.com/stipend/stipend/internal/payout/bank/increase"
	"github.com/stipend/stipend/internal/payout/bank/modulr"
	"github.com/stipend/stipend/internal/payout/bank/nacha"
	"github.com/stipend/stipend/internal/payout/bank/wise"
	"github.com/stipend/stipend/internal/payroll"
)

// bankDrop returns the place where files are exchanged with the bank, or nil if there is none, and the accounts from
// which the bank pays.
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

// bankAPIs returns the bank APIs of the accounts that have one, by account ID.
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
		case a.Format == bank.FormatWise && c.WiseToken == "":
			err = fmt.Errorf("--wise-token is missing: the bank account %s needs it", a.ID)
		case a.Format == bank.FormatWise:
			if err = wise.CheckAccount(a); err == nil {
				api, err = wise.New(c.WiseURL, c.WiseToken)
			}
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

// verifier returns the service that compares payees' names with those of account holders, or nil if none is
// configured.
func (c Config) verifier() (bank.Verifier, error) {
	if c.ModulrKey == "" {
		return nil, nil
	}
	if c.ModulrSecret == "" || c.ModulrAccount == "" {
		return nil, errors.New("--modulr-key needs --modulr-secret and --modulr-account")
	}
	return modulr.New(c.ModulrURL, c.ModulrKey, c.ModulrSecret, c.ModulrAccount)
}

// verifiesNames reports whether payees' names are compared through an API: that of Modulr or of the simulated bank.
func (c Config) verifiesNames() bool {
	return c.ModulrKey != "" || c.Env == Sandbox && c.BankAccounts == ""
}

// bankCallbacks returns the authentication of webhooks from banks with an API. Without a secret, it rejects all
// webhooks.
func (c Config) bankCallbacks() (bank.Callbacks, error) {
	all := bank.Callbacks{}
	if c.IncreaseWebhookSecret != "" {
		all[bank.FormatIncrease] = increase.Callback(c.IncreaseWebhookSecret)
	}
	if c.ColumnWebhookSecret != "" {
		all[bank.FormatColumn] = column.Callback(c.ColumnWebhookSecret)
	}
	if c.WiseWebhookKeyFile != "" {
		key, err := os.ReadFile(c.WiseWebhookKeyFile)
		if err == nil {
			all[bank.FormatWise], err = wise.Callback(key)
		}
		if err != nil {
			return nil, fmt.Errorf("--wise-webhook-key-file: %w", err)
		}
	}
	return all, nil
}

// bankSFTP returns the bank's SFTP server. The directory in sftp://host//srv is /srv on the server; in
// sftp://host/srv it is relative to the user's directory.
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

// OperatorBankAccounts returns the operator's bank accounts.
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

// bankRail returns the rail for payments by bank, or nil if none is configured. A sandbox without a configured bank
// uses a simulated bank.
func (s *Service) bankRail(ctx context.Context) (*bank.Rail, error) {
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
		Reveal: s.revealBankDestination, Details: s.paymentDetails, Changed: s.recordBankCorrection, Checked: s.recordCheck,
	}
	if c.Verifier, err = s.cfg.verifier(); err != nil {
		return nil, err
	}
	if len(accounts) == 0 && s.cfg.Env == Sandbox {
		if err := s.simulateBank(ctx, &c); err != nil {
			return nil, err
		}
	}
	if len(c.Accounts) == 0 {
		return nil, nil
	}
	if s.collector, err = directdebit.NewCollector(s.debits, c.Drop, apis, s.log, 5*time.Second); err != nil {
		return nil, err
	}
	c.Debits, c.DebitReferences = s.collector.Apply, directdebit.References
	c.Statement = func(ctx context.Context, d *db.DB, statement io.Reader, parts []bank.Part) ([]string, error) {
		sum, err := bankreceipt.Import(ctx, d, statement, c.Accounts, parts...)
		if err != nil && !apierr.Passing(err) {
			return append(sum.Problems, err.Error()), nil // reading the statement again would not help
		}
		return sum.Problems, err
	}
	rail, err := bank.New(c)
	if err == nil && c.Simulate != nil {
		s.collector.AfterSend(rail.Collect)
	}
	return rail, err
}

// SimulatedBankDir returns the directory of the simulated bank of a database. For an embedded database it is next to
// the database. Otherwise it is a temporary directory that all processes on the machine with this database share, so
// that the bank's statements continue after a restart.
func SimulatedBankDir(databaseURL string) string {
	if path, embedded := strings.CutPrefix(databaseURL, "sqlite:"); embedded {
		return strings.TrimPrefix(path, "//") + ".bank"
	}
	name := sha256.Sum256([]byte(databaseURL))
	return filepath.Join(os.TempDir(), "stipend-bank-"+hex.EncodeToString(name[:8]))
}

// settingBank is the setting that identifies the database to the simulated bank.
const settingBank = "sandbox.bank"

// simulateBank completes c with a simulated bank.
func (s *Service) simulateBank(ctx context.Context, c *bank.Config) (err error) {
	var id string
	if err := s.db.Write(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		if id, err = db.Setting(ctx, tx, settingBank); err != nil || id != "" {
			return err
		}
		id = tx.NewID("bnk")
		return db.SetSetting(ctx, tx, settingBank, id)
	}); err != nil {
		return err
	}
	if c.Drop, s.simulatedBank, err = bank.OpenSandboxFor(SimulatedBankDir(s.cfg.URL()), id); err != nil {
		return err
	}
	if c.Accounts = bank.SandboxAccounts(); c.Verifier == nil {
		c.Verifier = s.simulatedBank
	}
	c.Simulate = func(ctx context.Context) error {
		now, err := s.db.Now(ctx)
		if err != nil {
			return err
		}
		return s.simulatedBank.ProcessFiles(now)
	}
	return nil
}

// ownsDebitedAccount reports whether the account of a mandate is known to belong to the company. Only the simulated
// bank confirms this; otherwise staff check it.
func (s *Service) ownsDebitedAccount(_ context.Context, _ *db.Tx, m directdebit.Mandate) (bool, error) {
	if s.cfg.Env != Sandbox {
		return false, nil
	}
	data, err := destination.Reveal(s.sealer, m.Account)
	if err != nil {
		return false, err
	}
	var account struct {
		IBAN   string `json:"iban"`
		Number string `json:"account_number"`
	}
	err = json.Unmarshal(data, &account)
	return bank.SandboxOwns(account.IBAN + account.Number), err
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

// paymentDetails returns, by output ID, the details of the payments that the outputs of a company or a user pay. They
// include the address of the payer.
func (s *Service) paymentDetails(ctx context.Context, tx *db.Tx, companyID string,
	outs []payout.Output) (map[string]payout.Details, error) {
	if identity.IsUser(companyID) {
		return income.Details(ctx, tx, s.sealer, companyID, outs)
	}
	all, err := payroll.Details(ctx, tx, companyID, outs)
	if err != nil {
		return nil, err
	}
	p, err := s.payer(ctx, tx, companyID)
	for id, d := range all {
		d.PayerStreet, d.PayerPostCode, d.PayerTown, d.PayerState = p.PayerStreet, p.PayerPostCode, p.PayerTown, p.PayerState
		d.PayerLEI = p.PayerLEI
		all[id] = d
	}
	return all, err
}

// payer returns a company as the payer of payments, with the address in its profile.
func (s *Service) payer(ctx context.Context, tx *db.Tx, companyID string) (payout.Details, error) {
	p, err := s.kyc.CompanyProfile(ctx, tx, companyID)
	return payout.Details{Payer: p.Name, PayerCountry: p.Country, PayerStreet: p.StreetAddress, PayerPostCode: p.Zip,
		PayerTown: p.City, PayerState: p.State, PayerLEI: p.LEI}, err
}

// recordBankCorrection records that a bank requests a change of an output's destination before the next payment.
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

// checks returns the effect of account checks on payments.
func (s *Service) checks() destination.Checks {
	return destination.Checks{
		Policy: destination.CheckPolicy(s.cfg.AccountChecks),
		Method: func(symbol money.Asset, country, scheme string) destination.CheckMethod {
			return destination.CheckMethod(bank.CheckMethod(s.banks, s.cfg.verifiesNames(), s.cfg.Prenotes, symbol, country,
				scheme))
		},
	}
}

// checkDestination returns the handler that has a bank check an account after the account was entered.
func (s *Service) checkDestination(rail *bank.Rail) job.NetHandler {
	return func(ctx context.Context, d *db.DB, j job.Job) error {
		var to destination.Destination
		if err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
			to, err = destination.FindEntered(ctx, tx, j)
			return err
		}); errors.Is(err, apierr.NotFoundErr) {
			return nil
		} else if err != nil {
			return err
		}
		c := destination.AccountCheck{Result: destination.CheckPending, CompanyID: j.CompanyID}
		checks := s.checks()
		if c.Method = checks.Method(to.Symbol, to.Country, to.Scheme); c.Method == "" || rail == nil ||
			to.Check != nil && to.Check.Result != destination.CheckPending || checks.Policy == destination.CheckIgnored {
			return nil
		}
		if c.Method == destination.CheckPrenote {
			return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
				now, err := destination.FindEntered(ctx, tx, j)
				if err != nil || !now.SamePlace(to) || now.Check != nil && now.Check.Method == c.Method {
					return err // the check was already queued
				}
				if _, err := destination.RecordCheck(ctx, tx, to, c); err != nil {
					return err
				}
				snapshot, err := json.Marshal(to)
				if err != nil {
					return err
				}
				return rail.AddPrenote(ctx, tx, cmp.Or(j.CompanyID, to.OwnerID), to.Symbol, snapshot)
			})
		}
		data, err := destination.Reveal(s.sealer, to)
		if err != nil {
			return err
		}
		answer, err := rail.VerifyName(ctx, bank.Destination{Country: to.Country, Scheme: to.Scheme, Data: data})
		return errors.Join(err, d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			if err == nil {
				c.Result = destination.CheckResult(answer.Result)
			}
			return s.storeCheck(ctx, tx, to, c, answer.Name)
		}))
	}
}

// storeCheck stores the check of a destination, including the name of the account holder.
func (s *Service) storeCheck(ctx context.Context, tx *db.Tx, to destination.Destination, c destination.AccountCheck,
	holder string) (err error) {
	if c.Sealed, err = destination.SealHolder(s.sealer, to, holder); err != nil {
		return err
	}
	_, err = destination.RecordCheck(ctx, tx, to, c)
	return err
}

// recordCheck stores the result of a bank's check of an account. It returns false for a destination of the company
// itself.
func (s *Service) recordCheck(ctx context.Context, tx *db.Tx, c bank.Checked) (bool, error) {
	var to destination.Destination
	if err := json.Unmarshal(c.Destination, &to); err != nil {
		return false, err
	}
	if to.OwnerID == c.CompanyID && !identity.IsUser(to.OwnerID) {
		return false, nil
	}
	if !c.Unless.IsZero() {
		before, err := destination.CheckOf(ctx, tx, to)
		if err != nil || before != nil && !before.Checked.Before(c.Unless) && before.Result != destination.CheckPending {
			return true, err
		}
	}
	company := c.CompanyID
	if identity.IsUser(company) {
		company = ""
	}
	return true, s.storeCheck(ctx, tx, to, destination.AccountCheck{Method: destination.CheckMethod(c.Method),
		Result: destination.CheckResult(c.Result), Code: c.Code, Until: c.Until, CompanyID: company}, c.Name)
}
