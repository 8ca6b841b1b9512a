package wise

import "github.com/stipend/stipend/internal/payout/bank"

// TransactionID returns the customerTransactionId of the payment with a reference.
func TransactionID(profile, reference string) string {
	return transactionID(bank.Order{Account: bank.Account{Profile: profile}, Reference: reference, Method: method})
}
