package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/apierr"
	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/withdrawal"
)

// Money that claims earn is in the merchant's account (2200) until a settlement credits it to the company's balance,
// which can fund payrolls. If the settings have a withdrawal destination in the same currency, the settlement also
// creates a withdrawal to it, with all checks of withdrawals.

// Errors returned to merchants.
var (
	ErrNoBalance   = apierr.New(apierr.Conflict, "insufficient_balance", "Claims have not brought as much as this.")
	errDestination = apierr.New(apierr.NotFound, "not_found",
		"The company has no such destination. They are added on the page /wallets/withdrawals.")
)

// Settlement is a transfer of money that claims earned to the company's balance.
type Settlement struct {
	CompanyID, ID string
	Amount        money.Amount
	WithdrawalID  string // withdrawal that pays the money out; "" if it stays in the balance
	CreatedAt     time.Time
}

// IsClaim reports whether an ID is a claim's.
func IsClaim(id string) bool { return strings.HasPrefix(id, "clm_") }

// Settle settles an amount in a currency. An amountText of "" is the full amount that claims have earned.
func (s *Service) Settle(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, currency,
	amountText string) (Settlement, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return Settlement{}, err
	}
	company, err := identity.CompanyByID(ctx, tx, id)
	if err != nil {
		return Settlement{}, err
	}
	if err := company.Active(); err != nil {
		return Settlement{}, err
	}
	asset, known := money.Lookup(currency)
	if !known {
		return Settlement{}, errCurrency.At("body", "/currency")
	}
	settings, err := settingsOf(ctx, tx, company)
	if err != nil {
		return Settlement{}, err
	}
	balance, err := ledger.Balance(ctx, tx, id, ledger.MerchantPayable, "", asset)
	if err != nil {
		return Settlement{}, err
	}
	amount := balance
	if amountText != "" {
		var list apierr.List
		parsed, err := money.Parse(asset, amountText)
		if err == nil && parsed.Sign() <= 0 {
			err = money.ErrNotPositive
		}
		if err := list.AddErr(err, "/amount"); err != nil {
			return Settlement{}, err
		}
		if err := list.Err(); err != nil {
			return Settlement{}, err
		}
		amount = parsed
	}
	if amount.IsZero() || amount.Cmp(balance) > 0 {
		return Settlement{}, ErrNoBalance.Detailf("Claims have brought %s %s that are not settled.", balance, asset)
	}
	to, err := s.onwardTo(ctx, tx, by, settings, amount)
	if err != nil {
		return Settlement{}, err
	}
	return s.settle(ctx, tx, by, amount, to)
}

// onwardTo returns the ID of the destination to which a settlement is paid out, "" for none. It returns the error that
// a withdrawal to the destination would return.
func (s *Service) onwardTo(ctx context.Context, tx *db.Tx, by identity.Principal, settings Settings,
	amount money.Amount) (destinationID string, err error) {
	if settings.DestinationID == "" {
		return "", nil
	}
	to, err := withdrawal.DestinationOf(ctx, tx, settings.CompanyID, settings.DestinationID)
	if err != nil || to.ID == "" || to.To.Symbol != amount.Asset() {
		return "", err
	}
	return to.ID, s.Withdrawals.Ready(ctx, tx, by, settings.CompanyID, to.ID, amount)
}

// settle credits an amount to the company's balance, and withdraws it to a destination if there is one.
func (s *Service) settle(ctx context.Context, tx *db.Tx, by identity.Principal, amount money.Amount,
	destinationID string) (Settlement, error) {
	x := Settlement{CompanyID: by.CompanyID, ID: tx.NewID("stl"), Amount: amount, CreatedAt: tx.Now()}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: x.CompanyID, SourceType: "settlement", SourceID: x.ID, Purpose: "settle",
		Lines: []ledger.Line{ledger.Debit(ledger.MerchantPayable, "", amount), ledger.Credit(ledger.CompanyFunds, "",
			amount)},
	}); err != nil {
		return x, err
	}
	if destinationID != "" {
		w, err := s.Withdrawals.Create(ctx, tx, by, withdrawal.Params{DestinationID: destinationID,
			AmountText: amount.String()})
		if err != nil {
			return x, err
		}
		x.WithdrawalID = w.ID
	}
	db.History(tx, x.CompanyID, x.ID, 1, "", "completed", "settled by "+by.ID)
	if err := x.emit(tx); err != nil {
		return x, err
	}
	return x, insertSettlement(ctx, tx, x)
}

// Earned returns what claims earned and is not settled, per currency.
func (s *Service) Earned(ctx context.Context, tx *db.Tx, by identity.Principal) (all []money.Amount, err error) {
	companyID, err := by.Company("")
	if err != nil {
		return nil, err
	}
	holdings, err := ledger.Holdings(ctx, tx, companyID)
	for _, h := range holdings {
		if h.Code == ledger.MerchantPayable && h.Balance.Sign() > 0 {
			all = append(all, h.Balance)
		}
	}
	return all, err
}

// DayEarned is what the claims created on a day (UTC) earned in one currency.
type DayEarned struct {
	Day    time.Time
	Amount money.Amount
}

// EarnedByDay returns what the company's claims earned by the day (UTC) on which they were created, from a time on.
func (s *Service) EarnedByDay(ctx context.Context, tx *db.Tx, by identity.Principal, from time.Time) ([]DayEarned,
	error) {
	companyID, err := by.Company("")
	if err != nil {
		return nil, err
	}
	return earnedByDay(ctx, tx, companyID, from)
}

// Settlements returns a page of a company's settlements, newest first, and their total number.
func (s *Service) Settlements(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, page,
	perPage int) ([]Settlement, int64, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return listSettlements(ctx, tx, id, perPage, int64(max(page, 1)-1)*int64(perPage))
}

// every is the time between two scheduled settlements.
var every = map[Schedule]time.Duration{Daily: 24 * time.Hour, Weekly: 7 * 24 * time.Hour}

// SettleDue makes the scheduled settlements that are due, with one transaction for each company. An amount too small to
// be withdrawn waits for the next scheduled settlement.
func (s *Service) SettleDue(ctx context.Context, d *db.DB) error {
	var due []Settings
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) error {
		all, err := scheduled(ctx, tx)
		for _, one := range all {
			if !tx.Now().Before(one.settledAt.Add(every[one.Schedule])) {
				due = append(due, one)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	var failed []error // errors of companies, which do not delay the others
	for _, settings := range due {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return s.settleAll(ctx, tx,
				settings)
		}); err != nil {
			failed = append(failed, fmt.Errorf("settle what claims brought %s: %w", settings.CompanyID, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Service) settleAll(ctx context.Context, tx *db.Tx, settings Settings) error {
	first, err := noteSettled(ctx, tx, settings)
	if err != nil || !first {
		return err
	}
	company, err := identity.CompanyByID(ctx, tx, settings.CompanyID)
	if err != nil || company.Active() != nil {
		return err
	}
	holdings, err := ledger.Holdings(ctx, tx, settings.CompanyID)
	if err != nil {
		return err
	}
	// The principal is a program, so an amount above the limit needs two approvals.
	by := identity.Principal{ID: "schedule", CompanyID: settings.CompanyID}
	for _, h := range holdings {
		if h.Code != ledger.MerchantPayable {
			continue
		}
		to, err := s.onwardTo(ctx, tx, by, settings, h.Balance)
		if _, isFault := apierr.As(err); isFault {
			continue // this money waits for the next scheduled settlement
		}
		if err != nil {
			return err
		}
		if _, err := s.settle(ctx, tx, by, h.Balance, to); err != nil {
			return err
		}
	}
	return nil
}
