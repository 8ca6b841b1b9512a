package claim

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/fault"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/job"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
	"github.com/stipend/stipend/internal/payout"
)

// What claims bring is the merchant's (2200) until it is settled: moved to the company's wallet, where it can fund pay runs, at
// once; or, bitcoin alone, paid to the address in the merchant settings:
//
//	processing → completed, and back where a reorganisation takes the payout out

// SettlementState is where a settlement stands.
type SettlementState string

// The states of a settlement.
const (
	Processing SettlementState = "processing"
	Completed  SettlementState = "completed"
)

// leastSettlement is what a payout to an address is worth its fee from.
const leastSettlement = 10_000

// What a merchant may be told.
var (
	ErrNoBalance = fault.New(fault.Conflict, "insufficient_balance", "Claims have not brought as much as this.")
	errLeast     = fault.New(fault.Invalid, "amount_too_small", "The amount is below the least that is paid to an address.")
)

// Settlement is what a merchant took out of what its claims brought.
type Settlement struct {
	CompanyID, ID        string
	State                SettlementState
	Amount               money.Amount
	Address              string // "" for the company's wallet
	TxHash               string
	Version              int64
	CreatedAt, UpdatedAt time.Time

	outputID string
}

const settlementPrefix = "stl"

func isSettlement(id string) bool { return strings.HasPrefix(id, settlementPrefix+"_") }

// Pays says that payouts for an object are this package's: refunds of a claim, or a settlement.
func Pays(objectID string) bool { return strings.HasPrefix(objectID, "clm_") || isSettlement(objectID) }

// Settle takes an amount, or with "" all that there is, out of what claims have brought in a currency.
func (s *Service) Settle(ctx context.Context, tx *db.Tx, by identity.Principal, companyID, currency, amountText string) (Settlement, error) {
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
		var list fault.List
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
	return s.settle(ctx, tx, settings, amount, "settled by "+by.ID)
}

// settle moves an amount to where the settings say.
func (s *Service) settle(ctx context.Context, tx *db.Tx, settings Settings, amount money.Amount, reason string) (Settlement, error) {
	x := Settlement{
		CompanyID: settings.CompanyID, ID: tx.NewID(settlementPrefix), State: Completed, Amount: amount, Version: 1, CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	to := ledger.Credit(ledger.CompanyFunds, "", amount)
	if amount.Asset() == money.BTC && settings.PayoutAddress != "" {
		if amount.Units() < leastSettlement {
			return x, errLeast.Detailf("An address is paid %s BTC at least.", money.New(money.BTC, leastSettlement)).At("body", "/amount")
		}
		x.State, x.Address, x.outputID = Processing, settings.PayoutAddress, tx.NewID("out")
		to = ledger.Credit(ledger.OutputPayable, x.outputID, amount)
	}
	if err := insertSettlement(ctx, tx, x); err != nil {
		return x, err
	}
	db.History(tx, x.CompanyID, x.ID, x.Version, "", string(x.State), reason)
	if err := x.emit(tx, EventSettlement, ""); err != nil {
		return x, err
	}
	if err := ledger.Post(tx, ledger.Journal{
		CompanyID: x.CompanyID, SourceType: "settlement", SourceID: x.ID, Purpose: "settle",
		Lines: []ledger.Line{ledger.Debit(ledger.MerchantPayable, "", amount), to},
	}); err != nil {
		return x, err
	}
	if x.outputID != "" {
		job.Enqueue(tx, job.New{CompanyID: x.CompanyID, Kind: JobSettle, Payload: settlementPayload{x.ID}})
	}
	return x, nil
}

type settlementPayload struct {
	SettlementID string `json:"settlement_id"`
}

// SendSettlement gives a settlement to the engine that pays everybody (job claim.settle). While its address is on a sanctions list,
// it waits.
func (s *Service) SendSettlement(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in settlementPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	x, err := findSettlement(ctx, tx, j.CompanyID, in.SettlementID)
	if err != nil {
		return err
	}
	if _, err := payout.Get(ctx, tx, x.CompanyID, x.outputID); !errors.Is(err, db.ErrNoRows) {
		return err // it was sent
	}
	held, err := s.held(ctx, tx, x.CompanyID, x.Address, x.Address)
	if err != nil {
		return err
	}
	if held {
		job.Enqueue(tx, job.New{CompanyID: x.CompanyID, Kind: JobSettle, Payload: in, RunAt: tx.Now().Add(refundLater)})
		return nil
	}
	return payout.Add(tx, []payout.Output{{
		CompanyID: x.CompanyID, ID: x.outputID, PayrollID: x.ID, PaymentID: x.ID, Rail: payout.RailBitcoin, Amount: x.Amount, Input: x.Amount, Address: x.Address,
	}})
}

type screenPayload struct {
	Address string `json:"address"`
}

// ScreenAddress looks for an address on the sanctions lists as soon as settlements are to go there (job claim.screen), so that
// somebody can decide before money waits.
func (s *Service) ScreenAddress(ctx context.Context, tx *db.Tx, j job.Job) error {
	var in screenPayload
	if err := j.Decode(&in); err != nil {
		return err
	}
	_, err := s.held(ctx, tx, j.CompanyID, in.Address, in.Address)
	return err
}

// held says that money may not go to an address now.
func (s *Service) held(ctx context.Context, tx *db.Tx, companyID, subjectID, address string) (bool, error) {
	if s.Screen == nil {
		return false, nil
	}
	return s.Screen(ctx, tx, companyID, subjectID, address)
}

// followSettlement looks what became of a settlement's payout.
func followSettlement(ctx context.Context, tx *db.Tx, companyID, id string) error {
	x, err := findSettlement(ctx, tx, companyID, id)
	if err != nil {
		return err
	}
	o, err := payout.Get(ctx, tx, companyID, x.outputID)
	if err != nil {
		return err
	}
	from, hash := x.State, x.TxHash
	x.State, x.TxHash = Processing, o.TxID
	if o.State == payout.Fulfilled {
		x.State = Completed
	}
	if x.State == from && x.TxHash == hash {
		return nil
	}
	if err := updateSettlement(ctx, tx, &x, from); err != nil {
		return err
	}
	db.History(tx, x.CompanyID, x.ID, x.Version, string(from), string(x.State), "")
	return x.emit(tx, EventSettlementStatus, from)
}

// Settlements pages a company's settlements, newest first, and says how many there are in all.
func (s *Service) Settlements(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, page, perPage int) ([]Settlement, int64, error) {
	id, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	return listSettlements(ctx, tx, id, perPage, int64(max(page, 1)-1)*int64(perPage))
}

// every is how long a schedule waits between two settlements.
var every = map[Schedule]time.Duration{Daily: 24 * time.Hour, Weekly: 7 * 24 * time.Hour}

// SettleDue settles what schedules say, each company in a transaction of its own. Whatever is too little waits for the next time.
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
	for _, settings := range due {
		if err := d.Write(ctx, func(ctx context.Context, tx *db.Tx) error { return s.settleAll(ctx, tx, settings) }); err != nil {
			return err
		}
	}
	return nil
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
	for _, h := range holdings {
		if h.Code != ledger.MerchantPayable || h.Balance.Asset() == money.BTC && settings.PayoutAddress != "" && h.Balance.Units() < leastSettlement {
			continue
		}
		if _, err := s.settle(ctx, tx, settings, h.Balance, "by schedule"); err != nil {
			return err
		}
	}
	return nil
}
