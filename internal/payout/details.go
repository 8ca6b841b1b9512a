package payout

// Purpose is the reason for a payment, as banks classify it.
type Purpose string

// Purposes. PurposeOther includes withdrawals and refunds.
const (
	PurposeWages  Purpose = "wages"  // pay of an employee or contractor who is a person
	PurposeVendor Purpose = "vendor" // payment to a company, or to a person with the role vendor
	PurposeOther  Purpose = ""
)

// Details describe a payment for the payee and the banks. Rails that carry no text ignore them.
type Details struct {
	Payer        string // name of the paying company, or of the user whose income is paid out
	PayerCountry string // country code of the payer
	// PayerStreet, PayerPostCode, PayerTown and PayerState are the rest of the payer's address, "" if unknown.
	PayerStreet, PayerPostCode, PayerTown, PayerState string
	PayerLEI                                          string // legal entity identifier of the payer, "" if unknown
	Purpose                                           Purpose
	Description                                       string // the company's description of the payment, "" for none
	Invoice                                           string // number of the paid invoice, "" for none
}
