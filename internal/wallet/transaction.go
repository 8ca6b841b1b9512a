package wallet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stipend/stipend/internal/db"
	"github.com/stipend/stipend/internal/identity"
	"github.com/stipend/stipend/internal/ledger"
	"github.com/stipend/stipend/internal/money"
)

// Types of transactions. For any other source, the type is the source type of the journal.
const (
	PayrollFunding   = "payroll_funding"     // the balance funded a payroll
	PayrollSurplus   = "payroll_surplus"     // a payment for a payroll was too large or too late
	PayrollCancelled = "payroll_cancelled"   // a payroll was canceled, and its funding returned
	FundingReverted  = "funding_reverted"    // a deposit for a payroll was reversed
	BankDeposit      = "bank_deposit"        // a bank transfer arrived in a virtual account
	CoinDeposit      = "coin_deposit"        // coins were paid to a wallet's address
	CoinsReverted    = "coins_reverted"      // a reorganization reversed a deposit of coins
	PlatformFee      = "platform_fee"        // a platform earned its fee on a payroll of a connected company
	ClaimPayment     = "claim_payment"       // a claim was paid
	ClaimReverted    = "claim_reverted"      // a reorganization reversed a claim's payment
	ClaimRefund      = "claim_refund"        // the company refunded a part of a paid claim
	ClaimRefundEnded = "claim_refund_undone" // a claim refund was canceled before the payer accepted it
	Settlement       = "settlement"          // money of claims was settled to the balance
	Withdrawal       = "withdrawal"          // the company withdrew money
	WithdrawalUndone = "withdrawal_undone"   // a withdrawal ended without payment, or was returned
	DirectDebit      = "direct_debit"        // money was collected from the company's bank account
	DebitReturned    = "direct_debit_return" // the bank took the money of a direct debit back
	Debt             = "debt"                // a debt was settled from the balance
)

// Transaction is one line of a company's statement.
type Transaction struct {
	ID          string
	Type        string
	Description string
	Amount      money.Amount // change of the balance; negative for a debit
	Balance     money.Amount // the balance after the transaction
	SourceType  string       // kind of the object: payroll, claim, bank_deposit, ...
	SourceID    string
	PayrollID   string // "" if the transaction does not concern a payroll
	DepositID   string // "" if the transaction does not concern a deposit
	At          time.Time
}

// Ref returns a text that identifies the transaction within its list, for Filter.Page.
func (t Transaction) Ref() string { return t.ID + "." + string(t.Amount.Asset()) }

// Filter selects transactions and a page of them.
type Filter struct {
	Claims   bool      // selects the balance of claims instead of the available balance
	Currency string    // "" for all; a statement requires one
	From, To time.Time // selects times in [From, To); a zero time is no bound
	Page     db.Page
}

// account returns the ledger account that the filter selects.
func (f Filter) account() ledger.Code {
	if f.Claims {
		return ledger.MerchantPayable
	}
	return ledger.CompanyFunds
}

// period returns the filter as a period of the ledger.
func (f Filter) period(asset money.Asset) ledger.Period {
	return ledger.Period{
		Asset: asset, From: f.From, To: f.To, Page: f.Page,
	}
}

// asset returns the asset that the filter selects.
func (f Filter) asset() (money.Asset, error) {
	a, known := money.Lookup(f.Currency)
	if !known {
		return "", errCurrency.At("query", "currency")
	}
	return a, nil
}

// Transactions returns a page of a company's transactions, newest first, and the number of all transactions that the
// filter selects.
func Transactions(ctx context.Context, tx *db.Tx, by identity.Principal, companyID string, f Filter) ([]Transaction,
	int64, error,
) {
	company, err := by.Company(companyID)
	if err != nil {
		return nil, 0, err
	}
	var asset money.Asset
	if f.Currency != "" {
		if asset, err = f.asset(); err != nil {
			return nil, 0, err
		}
	}
	entries, total, err := ledger.Statement(ctx, tx, company, f.account(), f.period(asset))
	return transactions(entries), total, err
}

func transactions(entries []ledger.Entry) []Transaction {
	all := make([]Transaction, len(entries))
	for i, e := range entries {
		all[i] = newTransaction(e)
	}
	return all
}

// newTransaction converts a ledger entry to a transaction. docs/ledger.md lists the sources and purposes of journals.
func newTransaction(e ledger.Entry) Transaction {
	t := Transaction{
		ID: e.JournalID, Amount: e.Amount, Balance: e.Balance, SourceType: e.SourceType, SourceID: e.SourceID,
		At: e.BookedAt,
	}
	purpose, rest, _ := strings.Cut(e.Purpose, ":")
	switch e.SourceType {
	case "payroll":
		t.PayrollID = e.SourceID
		t.DepositID, _, _ = strings.Cut(rest, ":")
		switch purpose {
		case "fund":
			t.Type, t.Description = PayrollFunding, "Payroll "+e.SourceID+" was funded from the balance"
		case "cancel":
			t.Type, t.Description = PayrollCancelled, "Payroll "+e.SourceID+" was canceled and its funding returned"
		case "reprice":
			t.Type, t.Description = PayrollCancelled, "Payroll "+e.SourceID+" was canceled and settled at the present rate"
		case "price":
			t.Type, t.Description = PayrollFunding, "The higher price of a payment of payroll "+e.SourceID+" was paid"
		case "take_back":
			t.Type, t.Description = PayrollCancelled, "A payment of payroll "+e.SourceID+" was canceled and its money returned"
		case "reverse":
			t.Type, t.Description = FundingReverted, "A deposit for payroll "+e.SourceID+" was reversed"
		default:
			t.Type, t.Description = PayrollSurplus, "Payroll "+e.SourceID+" received more than it needed"
		}
	case "claim":
		t.Type, t.Description = ClaimPayment, "Claim "+e.SourceID+" was paid"
		if e.Amount.Sign() < 0 {
			t.Type, t.Description = ClaimReverted, "The payment of claim "+e.SourceID+" was reversed"
		}
	case "refund":
		t.Type, t.Description = ClaimRefund, "Refund "+e.SourceID+" of a paid claim"
		if e.Amount.Sign() > 0 {
			t.Type, t.Description = ClaimRefundEnded, "Refund "+e.SourceID+" was canceled"
		}
	case Settlement:
		t.Type, t.Description = Settlement, "Settlement "+e.SourceID+" of paid claims"
	case Withdrawal:
		t.Type, t.Description = Withdrawal, "Withdrawal "+e.SourceID
		if e.Amount.Sign() > 0 {
			t.Type, t.Description = WithdrawalUndone, "Withdrawal "+e.SourceID+" was not paid or was returned"
		}
	case "deposit":
		t.Type, t.DepositID, t.Description = CoinDeposit, e.SourceID, "Deposit of coins"
		if e.Amount.Sign() < 0 {
			t.Type, t.Description = CoinsReverted, "A deposit of coins was reversed"
		}
	case BankDeposit:
		t.Type, t.DepositID, t.Description = BankDeposit, e.SourceID, "Bank transfer"
	case DirectDebit:
		t.Type, t.Description = DirectDebit, "Direct debit "+e.SourceID
		if e.Amount.Sign() < 0 {
			t.Type, t.Description = DebitReturned, "Direct debit "+e.SourceID+" was returned"
		}
	case PlatformFee:
		t.PayrollID = e.SourceID
		t.Type, t.Description = PlatformFee, "Fee of payroll "+e.SourceID+" of a connected company"
	case Debt:
		t.Type, t.Description = Debt, "Debt after a reversed deposit"
	default:
		t.Type, t.Description = e.SourceType, fmt.Sprintf("%s %s", e.SourceType, e.SourceID)
	}
	return t
}
