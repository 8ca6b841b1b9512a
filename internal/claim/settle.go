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
// from which payrolls can be funded. If the settings name a bank currency, the settlement first exchanges the money
// into that currency. If the settings have a withdrawal destination in the currency of the settlement, the settlement
// also creates a withdrawal to the destination, with all checks of withdrawals.

// Errors returned to merchants.
var (
	ErrNoBalance  = apierr.New(apierr.Conflict, "insufficient_balance", "Claims have not earned this much.")
	errConversion = apierr.New(apierr.Invalid, "conversion_unavailable",
		"The service cannot exchange this much at the moment. Settle less, or try again later.")
	errConverted = apierr.New(apierr.Invalid, "amount_too_small",
		"The amount is less than the smallest unit of the currency into which settlements are converted.")
	errNoSettlement = apierr.New(apierr.NotFound, "not_found", "There is no such settlement.")
	errDestination  = apierr.New(apierr.NotFound, "not_found",
		"The company has no such destination. They are added on the page /wallets/withdrawals.")
)

// Settlement is a transfer of money that claims earned to the company's balance.
type Settlement struct {
	CompanyID, ID string
	Earned        money.Amount // settled money that claims earned
	Amount        money.Amount // amount credited to the balance: Earned, or the result of its exchange
	Rate          money.Rate   // price of one unit of Earned in the currency of Amount; zero without an exchange
	WithdrawalID  string       // withdrawal that pays out the settlement; "" if it stays in the balance
	CreatedAt     time.Time

	due time.Time // time for which the settlement was scheduled; zero if it was requested
}

// IsClaim reports whether an ID is the ID of a claim.
func IsClaim(id string) bool { return strings.HasPrefix(id, "clm_") }

// Settle settles an amount in a currency. If amountText is "", it settles the full amount that claims have earned.
func (s *Service) Settle(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, currency,
	amountText string) (Settlement, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return Settlement{}, err
	}
	company, err := ownerOf(ctx, tx, id)
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
	return s.settle(ctx, tx, by, settings, amount, time.Time{})
}

// onwardTo returns the ID of the destination to which a settlement is paid out, or "" for none. It returns the error
// that a withdrawal to the destination would return.
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

// settle credits an amount that claims earned to the company's balance, after an exchange if the settings require
// one. If the settings' destination has the same currency, it also withdraws the amount to the destination. If it
// returns an apierr error, nothing has changed.
func (s *Service) settle(ctx context.Context, tx *db.Tx, by identity.Principal, settings Settings,
	earned money.Amount, due time.Time) (Settlement, error) {
	x := Settlement{CompanyID: settings.CompanyID, ID: tx.NewID("stl"), Earned: earned, Amount: earned,
		CreatedAt: tx.Now(), due: due}
	var err error
	if to := settings.ConvertTo; to != "" && to != earned.Asset() {
		if x.Rate, err = s.exchangeRate(ctx, tx, earned.Asset(), to, false); err != nil {
			return x, err
		}
		if x.Amount, err = s.exchanged(ctx, tx, earned, to, money.Floor, true); errors.Is(err, errRefundCoin) {
			err = errConversion
		}
		if err != nil {
			return x, err
		}
		if x.Amount.IsZero() {
			return x, errConverted
		}
	}
	destinationID, err := s.onwardTo(ctx, tx, by, settings, x.Amount)
	if err != nil {
		return x, err
	}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: x.CompanyID, SourceType: "settlement", SourceID: x.ID, Purpose: "settle",
		Lines: append(exchange(x.Earned, x.Amount),
			ledger.Debit(ledger.MerchantPayable, "", x.Earned), ledger.Credit(ledger.CompanyFunds, "", x.Amount)),
	}); err != nil {
		return x, err
	}
	if destinationID != "" {
		w, err := s.Withdrawals.Create(ctx, tx, by, withdrawal.Params{DestinationID: destinationID,
			AmountText: x.Amount.String()})
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

// Earned returns the money that claims earned and that was not settled, per currency.
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

// DayEarned is the amount, in one currency, that the claims created on one day (UTC) earned.
type DayEarned struct {
	Day    time.Time
	Amount money.Amount
}

// EarnedByDay returns the earnings of the company's claims by the day (UTC) of the claims' creation, since a time.
func (s *Service) EarnedByDay(ctx context.Context, tx *db.Tx, by identity.Principal, from time.Time) ([]DayEarned,
	error) {
	companyID, err := by.Company("")
	if err != nil {
		return nil, err
	}
	return earnedByDay(ctx, tx, companyID, from)
}

// Settlements returns a page of a company's settlements, newest first, and their total number.
func (s *Service) Settlements(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string,
	page db.Page) ([]Settlement, int64, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return listSettlements(ctx, tx, id, page)
}

// nextSettlement returns the first time after now at which the schedule settles: midnight in the time zone, each day
// or on one day of the week. Where a clock change skips midnight, it returns the closest time that exists. It returns
// the zero time for a manual schedule.
func (s *Settings) nextSettlement(now time.Time) (time.Time, error) {
	if s.Schedule == Manual {
		return time.Time{}, nil
	}
	zone, err := time.LoadLocation(s.TimeZone)
	if err != nil {
		return time.Time{}, err
	}
	year, month, day := now.In(zone).Date()
	for i := 0; ; i++ {
		at := time.Date(year, month, day+i, 0, 0, 0, 0, zone)
		weekday := time.Date(year, month, day+i, 12, 0, 0, 0, zone).Weekday()
		if at.After(now) && (s.Schedule == Daily || weekday == s.Day) {
			return at, nil
		}
	}
}

// SettleDue makes the scheduled settlements that are due, with one transaction for each company and currency. Each
// settlement is made once, even if several processes call SettleDue or are interrupted. While a company is frozen, an
// asset is stopped or another rule prevents a settlement, the settlement stays due. An amount too small to be paid
// out waits for the next scheduled settlement.
func (s *Service) SettleDue(ctx context.Context, d *db.DB) error {
	var due []Settings
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		due, err = settingsDue(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	var failed []error // an error of one company does not delay the others
	for _, settings := range due {
		if err := s.settleCompany(ctx, d, settings); err != nil {
			failed = append(failed, fmt.Errorf("settle what claims brought %s: %w", settings.CompanyID, err))
		}
	}
	return errors.Join(failed...)
}

// settleCompany settles each currency of a company, and then schedules the next settlement unless a currency has to
// wait.
func (s *Service) settleCompany(ctx context.Context, d *db.DB, due Settings) error {
	var holdings []ledger.Holding
	err := d.Read(ctx, func(ctx context.Context, tx *db.Tx) (err error) {
		holdings, err = ledger.Holdings(ctx, tx, due.CompanyID)
		return err
	})
	if err != nil {
		return err
	}
	waits := false
	var failed []error
	for _, h := range holdings {
		if h.Code != ledger.MerchantPayable || h.Balance.IsZero() {
			continue
		}
		err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
			return s.settleScheduled(ctx, tx, due, h.Balance.Asset())
		})
		if _, rule := apierr.As(err); rule {
			waits = true
		} else if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return d.Write(ctx, func(ctx context.Context, tx *db.Tx) error {
		now, err := lockDue(ctx, tx, due)
		if err != nil || now.CompanyID == "" {
			return err
		}
		company, err := identity.CompanyByID(ctx, tx, due.CompanyID)
		if err != nil || company.Active() != nil {
			return err // the settlement stays due while the company is frozen
		}
		after := tx.Now()
		if waits { // a waiting currency stays due until the next settlement, which then includes it
			after = due.settlesAt
		}
		next, err := now.nextSettlement(after)
		if err != nil || waits && next.After(tx.Now()) {
			return err
		}
		return saveNextSettlement(ctx, tx, now.CompanyID, next)
	})
}

// settleScheduled makes the scheduled settlement of one currency, unless it was made before. It returns an apierr
// error if the settlement has to wait.
func (s *Service) settleScheduled(ctx context.Context, tx *db.Tx, due Settings, asset money.Asset) error {
	settings, err := lockDue(ctx, tx, due)
	if err != nil || settings.CompanyID == "" {
		return err
	}
	if made, err := settled(ctx, tx, due, asset); err != nil || made {
		return err
	}
	company, err := identity.CompanyByID(ctx, tx, settings.CompanyID)
	if err != nil {
		return err
	}
	if err := company.Active(); err != nil {
		return err
	}
	stopped, err := ledger.StoppedAssets(ctx, tx)
	if err != nil {
		return err
	}
	if stopped[asset] || stopped[settings.ConvertTo] {
		return errConversion
	}
	balance, err := ledger.Balance(ctx, tx, settings.CompanyID, ledger.MerchantPayable, "", asset)
	if err != nil || balance.IsZero() {
		return err
	}
	// The principal is not a member, so an amount above the limit needs two approvals.
	by := identity.Principal{ID: "schedule", CompanyID: settings.CompanyID}
	_, err = s.settle(ctx, tx, by, settings, balance, due.settlesAt)
	if rule, ok := apierr.As(err); ok && rule.Code == errConverted.Code {
		return nil // the amount is also too small to be paid out
	}
	return err
}
