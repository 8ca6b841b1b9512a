package webhook

import (
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Payloads of events, sent as the member "data". The contract's schemas are generated from these types. Members
// without a doc tag have the same meaning as elsewhere in the interface.
type (
	// PayrollData is a payroll after a change.
	PayrollData struct {
		PayrollID       string        `json:"payroll_id"`
		CompanyID       string        `json:"company_id"`
		ExternalID      string        `json:"external_id"`
		Status          string        `json:"status" enum:"pending,received,released,fulfilled,partially_fulfilled,cancelled,on_hold,expired_unfunded"`
		PreviousStatus  string        `json:"previous_status,omitempty" enum:"pending,received,released,fulfilled,partially_fulfilled,cancelled,on_hold,expired_unfunded" doc:"The state before. Absent when it is the same."`
		FundingState    string        `json:"funding_state" enum:"none,detected,partial,confirming,funded,late,over"`
		Reason          string        `json:"reason,omitempty" doc:"Why the state changed."`
		Currency        money.Asset   `json:"currency"`
		FundingMethod   string        `json:"funding_method"`
		FundingCurrency money.Asset   `json:"funding_currency"`
		Fees            money.Amount  `json:"fees"`
		Volume          money.Amount  `json:"volume_input_in_input_currency"`
		Total           money.Amount  `json:"total_input_in_input_currency"`
		Funded          money.Amount  `json:"funded_amount"`
		Payees          int64         `json:"payees" doc:"Number of payees."`
		Quote           *PayrollQuote `json:"quote,omitempty" doc:"The newest quote. Absent unless the payroll is funded by crypto."`
	}

	// PayrollQuote is the firm price of a payroll that is funded by crypto.
	PayrollQuote struct {
		QuoteID         string         `json:"quote_id"`
		ValidFrom       string         `json:"valid_from" format:"date-time"`
		ValidTo         string         `json:"valid_to" format:"date-time"`
		Rate            money.Rate     `json:"rate"`
		FundingCurrency money.Asset    `json:"funding_currency"`
		FundingAmount   money.Amount   `json:"funding_amount"`
		FundingDetails  FundingDetails `json:"funding_details"`
	}

	// FundingDetails is the address that a quote is paid to.
	FundingDetails struct {
		Address string `json:"address"`
		Network string `json:"network"`
	}

	// PayrollQuoteData is a payroll's quote that expired or was made.
	PayrollQuoteData struct {
		PayrollID            string       `json:"payroll_id"`
		PayrollQuote                      //
		Status               string       `json:"status" enum:"active,accepted,expired,superseded,cancelled"`
		DenominationCurrency money.Asset  `json:"denomination_currency"`
		DenominationAmount   money.Amount `json:"denomination_amount" doc:"The amount that the quote settles, in the payroll's currency."`
	}

	// FundingDetectedData is money that was seen coming in for a payroll.
	FundingDetectedData struct {
		PayrollID             string       `json:"payroll_id"`
		DepositID             string       `json:"deposit_id"`
		QuoteID               string       `json:"quote_id" doc:"The quote that was in force, empty for a bank transfer."`
		Status                string       `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		InTime                bool         `json:"in_time" doc:"Whether it was first seen before the quote expired."`
		Currency              money.Asset  `json:"currency"`
		Amount                money.Amount `json:"amount"`
		Address               string       `json:"address"`
		TxHash                string       `json:"tx_hash"`
		Vout                  int64        `json:"vout" doc:"Index of the output in its transaction."`
		TransferID            string       `json:"transfer_id,omitempty" doc:"The bank transfer, where it came by bank."`
		FirstSeen             string       `json:"first_seen" format:"date-time" doc:"When it was first seen."`
		ConfirmationsRequired int64        `json:"confirmations_required" doc:"Confirmations after which it counts."`
	}

	// PaymentData is the payment of one payee of a payroll, or the payment of a claim.
	PaymentData struct {
		UserID       string  `json:"user_id" doc:"The payee; of a claim, the merchant's own reference for its customer."`
		SubpayrollID *string `json:"subpayroll_id" doc:"Null: it is the payment of a claim."`
		PayrollID    string  `json:"payroll_id,omitempty" doc:"Absent for the payment of a claim."`
		ClaimID      *string `json:"claim_id" doc:"Null: it is a payment of a payroll."`
		Status       string  `json:"status" enum:"pending,received,released,fulfilled,action_required,on_hold,returned,cancelled,awaiting_payment,partially_paid,confirming,paid,expired,underpaid,paid_late,invalid,refunded" doc:"State of the payment, or of the claim."`
		Reason       string  `json:"reason,omitempty" doc:"Why the state changed."`
		Payment      Payment `json:"payment" doc:"The payment."`
	}

	// Payment is how far a payment has come.
	Payment struct {
		SubpayrollID *string         `json:"subpayroll_id" doc:"Null: it is the payment of a claim."`
		Received     bool            `json:"received" doc:"Whether its money has come in."`
		Released     bool            `json:"released" doc:"Whether it was released to be paid out."`
		Fulfilled    bool            `json:"fulfilled" doc:"Whether all of it has arrived."`
		Outputs      []PaymentOutput `json:"outputs" doc:"Its outputs, one for each destination; empty before the release."`
	}

	// PaymentOutput is the share of a payment that goes to one destination.
	PaymentOutput struct {
		InputCurrency  money.Asset  `json:"input_currency" doc:"Currency of the balance that pays it."`
		OutputCurrency money.Asset  `json:"output_currency" doc:"Currency that the payee receives."`
		Input          money.Amount `json:"volume_input_in_input_currency" doc:"Value in the input currency."`
		Output         money.Amount `json:"volume_output_in_output_currency"`
		Fees           money.Amount `json:"fees" doc:"Its share of the fees."`
		TxHash         string       `json:"tx_hash"`
	}

	// ClaimData is a merchant claim after a change. Amounts are decimal text.
	ClaimData struct {
		ClaimID        string      `json:"claim_id"`
		CompanyID      string      `json:"company_id"`
		PayerID        string      `json:"payer_id"`
		Status         string      `json:"status" enum:"awaiting_payment,partially_paid,confirming,paid,expired,underpaid,paid_late,invalid,refunded,cancelled"`
		PreviousStatus string      `json:"previous_status,omitempty" enum:"awaiting_payment,partially_paid,confirming,paid,expired,underpaid,paid_late,invalid,refunded,cancelled" doc:"The state before. Absent when it is the same."`
		Exception      string      `json:"exception" enum:"none,overpaid,late,within_tolerance"`
		Reverted       bool        `json:"reverted" doc:"Whether a payment that had counted was taken back by the chain."`
		Currency       money.Asset `json:"denomination_currency"`
		Amount         string      `json:"denomination_amount" doc:"The price, as decimal text."`
		Due            string      `json:"due_amount" doc:"The part of the price that no payment seen in time covers; 0 once it is enough."`
		Funding        money.Asset `json:"funding_currency"`
		Seen           string      `json:"seen_amount" doc:"The amount seen so far, confirmed or not, in the funding currency, as decimal text."`
		Received       string      `json:"received_amount" doc:"The confirmed part of seen_amount."`
		Refundable     string      `json:"refundable_amount" doc:"The amount that can be refunded now, in the funding currency, as decimal text."`
		Refunded       string      `json:"refunded_amount" doc:"The amount refunded so far, in the funding currency, as decimal text."`
		TxHash         string      `json:"tx_hash"`
		CheckoutURL    string      `json:"checkout_url"`
		Quote          *ClaimPrice `json:"quote,omitempty" doc:"The newest quote."`
	}

	// ClaimPrice is the firm price of a claim. Amounts are decimal text.
	ClaimPrice struct {
		QuoteID            string         `json:"quote_id"`
		ValidFrom          string         `json:"valid_from" format:"date-time"`
		ValidTo            string         `json:"valid_to" format:"date-time"`
		Rate               string         `json:"rate" doc:"Price of one whole unit of the funding currency in the denomination currency, as decimal text." example:"50000"`
		DenominationAmount string         `json:"denomination_amount" doc:"The amount that the quote settles, as decimal text: the claim's amount, or the part of it that is still due."`
		FundingAmount      string         `json:"funding_amount" doc:"The amount to pay, in the funding currency, as decimal text." example:"0.00240000"`
		FundingDetails     FundingDetails `json:"funding_details"`
	}

	// ClaimQuoteData is a claim's quote that expired or was made.
	ClaimQuoteData struct {
		ClaimID              string      `json:"claim_id"`
		ClaimPrice                       //
		Status               string      `json:"status" enum:"active,accepted,expired,superseded,cancelled"`
		FundingCurrency      money.Asset `json:"funding_currency"`
		DenominationCurrency money.Asset `json:"denomination_currency"`
	}

	// RefundData is a refund of a claim. The link to accept it and the payer's address are secret.
	RefundData struct {
		RefundID       string      `json:"refund_id" doc:"Id of the refund."`
		ClaimID        string      `json:"claim_id"`
		CompanyID      string      `json:"company_id"`
		Status         string      `json:"status" enum:"offered,accepted,paid,withdrawn"`
		PreviousStatus string      `json:"previous_status,omitempty" enum:"offered,accepted,paid,withdrawn" doc:"The state before. Absent when it was created."`
		Currency       money.Asset `json:"currency"`
		Amount         string      `json:"amount" doc:"Amount, as decimal text." example:"0.00010000"`
		TxHash         string      `json:"tx_hash"`
		ExpiresAt      string      `json:"expires_at" format:"date-time"`
	}

	// SettlementData is what claims brought in and the balance received.
	SettlementData struct {
		SettlementID string      `json:"settlement_id" doc:"Id of the settlement."`
		CompanyID    string      `json:"company_id"`
		Currency     money.Asset `json:"currency"`
		Amount       string      `json:"amount" doc:"Amount, as decimal text." example:"0.00240000"`
		WithdrawalID string      `json:"withdrawal_id" doc:"The withdrawal that pays it out, empty where it stays in the balance."`
	}

	// MerchantSettingsData is the merchant settings after a change.
	MerchantSettingsData struct {
		CompanyID     string      `json:"company_id"`
		ToleranceBps  int64       `json:"tolerance_bps"`
		Confirmations int64       `json:"confirmations"`
		LatePolicy    string      `json:"late_policy" enum:"manual,requote,refund"`
		GraceSeconds  int64       `json:"late_grace_seconds"`
		SettleIn      money.Asset `json:"settlement_currency"`
		Schedule      string      `json:"settlement_schedule" enum:"manual,daily,weekly"`
		DestinationID string      `json:"settlement_destination_id"`
		SupportEmail  string      `json:"support_email"`
		Origins       []string    `json:"origins"`
	}

	// PayoutDelayedData is payouts of one currency that were released and wait.
	PayoutDelayedData struct {
		Reason   string       `json:"reason" enum:"fee_too_high,insufficient_funds,not_estimated" doc:"Why they wait."`
		Waiting  int64        `json:"waiting" doc:"Number of payouts of the currency that wait."`
		Amount   money.Amount `json:"amount"`
		Currency money.Asset  `json:"currency"`
		Network  string       `json:"network"`
		Since    time.Time    `json:"since" doc:"When they began to wait."`
	}

	// PayoutReturnedData is a payout that the bank sent back.
	PayoutReturnedData struct {
		PayoutID       string       `json:"payout_id" doc:"Id of the output of the payment." example:"out_06gf58g6w3sm743akvrytz3w8m"`
		PayrollID      string       `json:"payroll_id"`
		SubpayrollID   string       `json:"subpayroll_id"`
		DistributionID string       `json:"distribution_id"`
		Amount         money.Amount `json:"amount"`
		Currency       money.Asset  `json:"currency"`
		Reason         string       `json:"reason" doc:"The bank's code, such as AC04 or R03."`
		ReasonText     string       `json:"reason_text" doc:"Meaning of the code."`
		BankText       string       `json:"bank_text" doc:"The bank's explanation."`
		Returned       time.Time    `json:"returned" doc:"When the bank reported it."`
	}

	// UserData is a user that was created.
	UserData struct {
		UserID    string `json:"user_id"`
		CompanyID string `json:"company_id"`
		Email     string `json:"email"`
		Product   string `json:"product" enum:"worker"`
		KYCStatus string `json:"kyc_status" enum:"not_started,pending,in_review,approved,resubmission_required,rejected,expired"`
	}

	// UserVerificationData is the verification of a user.
	UserVerificationData struct {
		UserID  string   `json:"user_id"`
		Status  string   `json:"status" enum:"not_started,pending,in_review,approved,resubmission_required,rejected,expired"`
		Reasons []string `json:"reasons" doc:"Codes of the problems, if any."`
	}

	// CompanyVerificationData is the verification of the company.
	CompanyVerificationData struct {
		CompanyID string   `json:"company_id"`
		Status    string   `json:"status" enum:"not_started,pending,in_review,approved,resubmission_required,rejected,suspended"`
		State     string   `json:"state" enum:"draft,documents_pending,submitted,in_review,ubo_pending,approved,more_info,rejected,suspended" doc:"The step of the verification."`
		Reasons   []string `json:"reasons" doc:"Codes of the problems, if any."`
	}

	// FundingAccountData is an account for incoming money of a user or company.
	FundingAccountData struct {
		UserID           string      `json:"user_id" doc:"The user, empty for an account of the company."`
		CompanyID        string      `json:"company_id"`
		FundingAccountID string      `json:"funding_account_id"`
		Currency         money.Asset `json:"currency"`
		Status           string      `json:"status" enum:"requested,terms_pending,pending,active,suspended,closed"`
		PreviousStatus   string      `json:"previous_status,omitempty" enum:"requested,terms_pending,pending,active,suspended,closed" doc:"The state before. Absent when it was created."`
		Reason           string      `json:"reason,omitempty" doc:"Why the state changed."`
	}

	// RecipientData is a recipient after a change.
	RecipientData struct {
		RecipientID    string `json:"recipient_id"`
		RecipientType  string `json:"recipient_type" enum:"user,company"`
		RelationshipID string `json:"relationship_id"`
		CompanyID      string `json:"company_id"`
		ExternalID     string `json:"external_id"`
		Status         string `json:"status" enum:"pending,active,inactive"`
	}

	// InvitationData is an invitation after a change.
	InvitationData struct {
		InvitationID string `json:"invitation_id"`
		CompanyID    string `json:"company_id"`
		Email        string `json:"email"`
		Role         string `json:"role" enum:"contractor,employee"`
		Status       string `json:"status" enum:"sent,accepted,expired,revoked"`
		ResendCount  int    `json:"resend_count" doc:"Number of times that it was sent again."`
		UserID       string `json:"user_id" doc:"The user who accepted it. Empty before."`
		Reason       string `json:"reason" enum:",revoked,declined" doc:"Why it was revoked; empty unless it was."`
	}

	// DestinationChangeData is a change of payment destinations. It leaves out the account or address.
	DestinationChangeData struct {
		CompanyID     string             `json:"company_id,omitempty" doc:"The company, where the destination is its own."`
		RecipientID   string             `json:"recipient_id" doc:"The payee, empty for a destination of the company."`
		UserID        string             `json:"user_id" doc:"The payee's user, empty without one."`
		Change        string             `json:"change" enum:"added,replaced,removed,reallocated" doc:"The kind of change."`
		Distributions []DestinationShare `json:"distributions" doc:"The destinations that changed."`
	}

	// DestinationShare is a destination and the share that it gets.
	DestinationShare struct {
		DistributionID string      `json:"distribution_id"`
		Symbol         money.Asset `json:"symbol"`
		Allocation     int         `json:"allocation" doc:"Share in percent after the change." example:"100"`
	}

	// CorrectionData is a correction of a destination that a bank asks for.
	CorrectionData struct {
		CompanyID      string    `json:"company_id,omitempty" doc:"The company, where the destination is its own."`
		RecipientID    string    `json:"recipient_id" doc:"The payee, empty for a destination of the company."`
		UserID         string    `json:"user_id" doc:"The payee's user, empty without one."`
		DistributionID string    `json:"distribution_id"`
		CorrectionID   string    `json:"correction_id" doc:"Id of the correction."`
		Symbol         string    `json:"symbol"`
		Code           string    `json:"code" doc:"The bank's code, such as C01." example:"C01"`
		Reason         string    `json:"reason" doc:"Meaning of the code."`
		Members        []string  `json:"members" doc:"Members of the destination that should change."`
		PayrollID      string    `json:"payroll_id" doc:"The payroll whose payment showed it, empty for a withdrawal."`
		SubpayrollID   string    `json:"subpayroll_id" doc:"The payment that showed it, empty for a withdrawal."`
		PayoutID       string    `json:"payout_id" doc:"The output that showed it." example:"out_06gf58g6w3sm743akvrytz3w8m"`
		Asked          time.Time `json:"asked" doc:"When the bank asked for it."`
	}

	// PayerData is a payer after a change. The payer's details are left out.
	PayerData struct {
		ExternalCompanyID string      `json:"external_company_id"`
		CompanyID         string      `json:"company_id"`
		UserID            string      `json:"user_id" doc:"The user whose payer it is, empty for a payer of the company."`
		Name              string      `json:"name"`
		Type              string      `json:"company_type" enum:"employer,client"`
		Currency          money.Asset `json:"payroll_invoice_currency"`
		Status            string      `json:"status" enum:"active,deleted"`
		PreviousStatus    string      `json:"previous_status,omitempty" enum:"active,deleted" doc:"The state before. Absent when it was created."`
	}

	// InvoiceData is an invoice after a change.
	InvoiceData struct {
		InvoiceID         string       `json:"invoice_id"`
		UserID            string       `json:"user_id"`
		ExternalCompanyID string       `json:"external_company_id"`
		Number            string       `json:"number"`
		Status            string       `json:"status" enum:"draft,sent,in_payroll,partially_paid,paid,overdue,void"`
		PreviousStatus    string       `json:"previous_status,omitempty" enum:"draft,sent,in_payroll,partially_paid,paid,overdue,void" doc:"The state before. Absent when it was created."`
		Currency          money.Asset  `json:"currency"`
		Total             money.Amount `json:"total"`
		Paid              money.Amount `json:"paid" doc:"The amount paid so far."`
		DueDate           string       `json:"due_date"`
		PayrollID         string       `json:"payroll_id" doc:"The payroll that pays it, empty without one."`
		SubpayrollID      string       `json:"subpayroll_id" doc:"The payment that pays it, empty without one."`
	}

	// TransferData is a bank transfer that came in. The sender's name and words are left out.
	TransferData struct {
		CompanyID         string      `json:"company_id"`
		UserID            string      `json:"user_id" doc:"The user who owns it, empty where the company does."`
		TransferID        string      `json:"transfer_id" doc:"Id of the transfer; the source_id of its transaction." example:"trf_06gf58g6w0aychq170kks701q0"`
		Status            string      `json:"status" enum:"credited,returned,suspense"`
		PreviousStatus    string      `json:"previous_status,omitempty" enum:"credited,returned,suspense" doc:"The state before. Absent when it was received."`
		Currency          money.Asset `json:"currency"`
		Amount            string      `json:"amount" doc:"Amount, as decimal text." example:"100.00"`
		PayrollID         string      `json:"payroll_id" doc:"The payroll that it funds, empty without one."`
		InvoiceID         string      `json:"invoice_id" doc:"The invoice that it pays, empty without one."`
		ExternalCompanyID string      `json:"external_company_id" doc:"The payer who sent it, empty without one."`
	}

	// WithdrawalData is a withdrawal after a change.
	WithdrawalData struct {
		WithdrawalID  string       `json:"withdrawal_id"`
		Status        string       `json:"status" enum:"pending,awaiting_approval,on_hold,processing,completed,returned,failed,declined,cancelled"`
		Reason        string       `json:"reason" doc:"Why it has the state, empty without a reason."`
		DestinationID string       `json:"destination_id"`
		Amount        money.Amount `json:"amount"`
		Currency      money.Asset  `json:"currency"`
		TxHash        string       `json:"tx_hash"`
		ExternalID    string       `json:"external_id"`
	}

	// WalletData is a wallet after a change.
	WalletData struct {
		WalletID string      `json:"wallet_id"`
		Currency money.Asset `json:"currency"`
		Status   string      `json:"status" enum:"pending,in_progress,completed,rejected"`
		Reason   string      `json:"reason" enum:",currency_not_supported,company_frozen" doc:"Why it was rejected; empty unless it was."`
		Address  string      `json:"address"`
	}

	// WalletDepositData is money that comes in for a wallet.
	WalletDepositData struct {
		WalletID              string       `json:"wallet_id" doc:"The wallet, empty where the money came to the address of another object."`
		DepositID             string       `json:"deposit_id"`
		Status                string       `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		PreviousStatus        string       `json:"previous_status" enum:",seen,confirmed,reverted,replaced,evicted" doc:"The state before, empty when it was first seen."`
		Currency              money.Asset  `json:"currency"`
		Amount                money.Amount `json:"amount"`
		Chain                 string       `json:"chain" doc:"The network on which it came." example:"bitcoin"`
		Address               string       `json:"address"`
		TxHash                string       `json:"tx_hash"`
		Vout                  int64        `json:"vout" doc:"Index of the output in its transaction."`
		FirstSeen             string       `json:"first_seen" format:"date-time" doc:"When it was first seen."`
		ConfirmationsRequired int64        `json:"confirmations_required" doc:"Confirmations after which it counts."`
	}

	// EndpointData is a webhook endpoint that was enabled or disabled.
	EndpointData struct {
		WebhookID string `json:"webhook_id"`
		Status    string `json:"status" enum:"enabled,disabled_auto,disabled_manual"`
		Reason    string `json:"reason" enum:",requested,gone,failing" doc:"Why it is disabled; empty when it is enabled."`
	}

	// TestData is the payload of a test.
	TestData struct {
		WebhookID string `json:"webhook_id"`
		Message   string `json:"message" doc:"A message for people."`
	}
)

// FormatTime returns a time as payloads show it: RFC 3339, UTC, in whole seconds or milliseconds.
func FormatTime(t time.Time) string {
	t = t.UTC().Truncate(time.Millisecond)
	if t.Nanosecond() == 0 {
		return t.Format(time.RFC3339)
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}
