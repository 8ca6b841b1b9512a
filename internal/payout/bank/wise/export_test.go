package wise

import "github.com/stipend/stipend/internal/payout/bank"

// TransactionID returns the customerTransactionId of the payment with a reference.
func TransactionID(profile, reference string) string {
	return transactionID(bank.Order{Account: bank.Account{Profile: profile}, Reference: reference, Method: method})
}

// Recipient returns the body of the call that creates the recipient of an order.
func Recipient(o bank.Order) (map[string]any, error) { return recipient(o) }

// Currencies returns the number of currencies that have a type of recipient account.
func Currencies() int { return len(recipients) }
