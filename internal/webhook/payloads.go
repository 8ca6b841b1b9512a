package webhook

import (
	"time"

	"github.com/stipend/stipend/internal/money"
)

// Payloads of events, which are sent as the member "data". The contract's schemas are generated from these types and
// from [MemberDocs].
type (
	// PayrollData describes a payroll after a change.
	PayrollData struct {
		PayrollID       string        `json:"payroll_id"`
		CompanyID       string        `json:"company_id"`
		ExternalID      string        `json:"external_id"`
		Status          string        `json:"status"`
		PreviousStatus  string        `json:"previous_status,omitempty"`
		FundingState    string        `json:"funding_state" enum:"none,detected,partial,confirming,funded,late,over"`
		Reason          string        `json:"reason,omitempty"`
		Currency        money.Asset   `json:"currency"`
		FundingMethod   string        `json:"funding_method"`
		FundingCurrency money.Asset   `json:"funding_currency"`
		Fees            money.Amount  `json:"fees"`
		Volume          money.Amount  `json:"volume_input_in_input_currency"`
		Total           money.Amount  `json:"total_input_in_input_currency"`
		Funded          money.Amount  `json:"funded_amount"`
		Payees          int64         `json:"payees"`
		PayDate         string        `json:"pay_date"`
		PeriodStart     string        `json:"period_start"`
		PeriodEnd       string        `json:"period_end"`
		Quote           *PayrollQuote `json:"quote,omitempty"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	// ProposalData describes a proposal after a change.
	ProposalData struct {
		ProposalID     string       `json:"proposal_id"`
		CompanyID      string       `json:"company_id"`
		Kind           string       `json:"kind" enum:"payroll,claim"`
		Status         string       `json:"status" enum:"open,confirmed,declined,cancelled,expired"`
		PreviousStatus string       `json:"previous_status,omitempty" enum:"open"`
		Currency       money.Asset  `json:"currency"`
		Amount         money.Amount `json:"amount"`
		PayrollID      string       `json:"payroll_id,omitempty"`
		ClaimID        string       `json:"claim_id,omitempty"`
	}

	// PlatformCompanyData describes, after a change, the connection of a company to the platform that created it.
	PlatformCompanyData struct {
		CompanyID      string `json:"company_id"`
		ExternalID     string `json:"external_id"`
		Status         string `json:"status" enum:"connected,disconnected"`
		PreviousStatus string `json:"previous_status,omitempty" enum:"connected"`
		FeeBps         int64  `json:"fee_bps"`
	}

	// ScheduleData describes a schedule after a change.
	ScheduleData struct {
		ScheduleID     string `json:"schedule_id"`
		CompanyID      string `json:"company_id"`
		Name           string `json:"name"`
		Status         string `json:"status" enum:"active,paused,ended"`
		PreviousStatus string `json:"previous_status,omitempty" enum:"active,paused"`
		Frequency      string `json:"frequency" enum:"weekly,biweekly,semimonthly,monthly"`
		NextRun        string `json:"next_run"`
		NextPayDate    string `json:"next_pay_date"`
	}

	// ScheduleRunData describes a run of a schedule after a change.
	ScheduleRunData struct {
		RunID      string `json:"run_id"`
		ScheduleID string `json:"schedule_id"`
		CompanyID  string `json:"company_id"`
		Day        string `json:"day"`
		PayDate    string `json:"pay_date"`
		Status     string `json:"status" enum:"planned,skipped,waiting,created"`
		Reason     string `json:"reason"`
		PayrollID  string `json:"payroll_id"`
	}

	// PayrollQuote is the firm price of a payroll that is funded in crypto.
	PayrollQuote struct {
		QuoteID         string         `json:"quote_id"`
		ValidFrom       string         `json:"valid_from" format:"date-time"`
		ValidTo         string         `json:"valid_to" format:"date-time"`
		Rate            money.Rate     `json:"rate"`
		FundingCurrency money.Asset    `json:"funding_currency"`
		FundingAmount   money.Amount   `json:"funding_amount"`
		FundingDetails  FundingDetails `json:"funding_details"`
	}

	// FundingDetails is the address to which a quote is paid.
	FundingDetails struct {
		Address string `json:"address"`
		Network string `json:"network"`
	}

	// PayrollQuoteData describes a quote of a payroll that was created or has expired.
	PayrollQuoteData struct {
		PayrollID            string       `json:"payroll_id"`
		PayrollQuote                      //
		Status               string       `json:"status" enum:"active,accepted,expired,superseded,cancelled"`
		DenominationCurrency money.Asset  `json:"denomination_currency"`
		DenominationAmount   money.Amount `json:"denomination_amount"`
	}

	// FundingDetectedData describes an incoming deposit that funds a payroll.
	FundingDetectedData struct {
		PayrollID             string       `json:"payroll_id"`
		DepositID             string       `json:"deposit_id"`
		QuoteID               string       `json:"quote_id"`
		Status                string       `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		InTime                bool         `json:"in_time"`
		Currency              money.Asset  `json:"currency"`
		Amount                money.Amount `json:"amount"`
		Address               string       `json:"address"`
		TxHash                string       `json:"tx_hash"`
		Vout                  int64        `json:"vout"`
		TransferID            string       `json:"transfer_id,omitempty"`
		FirstSeen             string       `json:"first_seen" format:"date-time"`
		ConfirmationsRequired int64        `json:"confirmations_required"`
	}

	// PaymentData describes the payment to one payee of a payroll, or the payment of a claim.
	PaymentData struct {
		UserID       string  `json:"user_id"`
		SubpayrollID *string `json:"subpayroll_id"`
		PayrollID    string  `json:"payroll_id,omitempty"`
		ClaimID      *string `json:"claim_id"`
		Status       string  `json:"status"`
		Reason       string  `json:"reason,omitempty"`
		Payment      Payment `json:"payment"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	// Payment describes the progress of a payment.
	Payment struct {
		SubpayrollID *string         `json:"subpayroll_id"`
		Received     bool            `json:"received"`
		Released     bool            `json:"released"`
		Fulfilled    bool            `json:"fulfilled"`
		Outputs      []PaymentOutput `json:"outputs"`
	}

	// PaymentOutput is the part of a payment that goes to one destination.
	PaymentOutput struct {
		InputCurrency  money.Asset  `json:"input_currency"`
		OutputCurrency money.Asset  `json:"output_currency"`
		Input          money.Amount `json:"volume_input_in_input_currency"`
		Output         money.Amount `json:"volume_output_in_output_currency"`
		Fees           money.Amount `json:"fees"`
		TxHash         string       `json:"tx_hash"`
	}

	// ClaimData describes a merchant claim after a change. Amounts are decimal text.
	ClaimData struct {
		ClaimID        string            `json:"claim_id"`
		CompanyID      string            `json:"company_id"`
		PayerID        string            `json:"payer_id"`
		ExternalID     string            `json:"external_id"`
		Metadata       map[string]string `json:"metadata,omitempty"`
		Status         string            `json:"status"`
		PreviousStatus string            `json:"previous_status,omitempty"`
		Exception      string            `json:"exception" enum:"none,overpaid,late,within_tolerance"`
		Reverted       bool              `json:"reverted"`
		Currency       money.Asset       `json:"denomination_currency"`
		Amount         string            `json:"denomination_amount"`
		Due            string            `json:"due_amount"`
		Funding        money.Asset       `json:"funding_currency"`
		Seen           string            `json:"seen_amount"`
		Received       string            `json:"received_amount"`
		Refundable     string            `json:"refundable_amount"`
		Refunded       string            `json:"refunded_amount"`
		TxHash         string            `json:"tx_hash"`
		CheckoutURL    string            `json:"checkout_url"`
		LinkID         string            `json:"payment_link_id,omitempty"`
		Quote          *ClaimPrice       `json:"quote,omitempty"`
	}

	// ClaimPrice is the firm price of a claim. Amounts are decimal text.
	ClaimPrice struct {
		QuoteID            string         `json:"quote_id"`
		ValidFrom          string         `json:"valid_from" format:"date-time"`
		ValidTo            string         `json:"valid_to" format:"date-time"`
		Rate               string         `json:"rate"`
		DenominationAmount string         `json:"denomination_amount"`
		FundingAmount      string         `json:"funding_amount"`
		FundingDetails     FundingDetails `json:"funding_details"`
	}

	// ClaimQuoteData describes a quote of a claim that was created or has expired.
	ClaimQuoteData struct {
		ClaimID              string      `json:"claim_id"`
		ClaimPrice                       //
		Status               string      `json:"status" enum:"active,accepted,expired,superseded,cancelled"`
		FundingCurrency      money.Asset `json:"funding_currency"`
		DenominationCurrency money.Asset `json:"denomination_currency"`
	}

	// RefundData describes a refund of a claim. It omits the link to accept the refund and the payer's address, which
	// are secret.
	RefundData struct {
		RefundID       string      `json:"refund_id"`
		ClaimID        string      `json:"claim_id"`
		CompanyID      string      `json:"company_id"`
		Status         string      `json:"status" enum:"awaiting_approval,offered,accepted,paid,withdrawn"`
		PreviousStatus string      `json:"previous_status,omitempty" enum:"awaiting_approval,offered,accepted,paid,withdrawn"`
		Currency       money.Asset `json:"currency"`
		Amount         string      `json:"amount"`
		Value          string      `json:"denomination_amount,omitempty"`
		ValueCurrency  money.Asset `json:"denomination_currency,omitempty"`
		Cost           string      `json:"cost_amount,omitempty"`
		CostCurrency   money.Asset `json:"cost_currency,omitempty"`
		TxHash         string      `json:"tx_hash"`
		ExpiresAt      string      `json:"expires_at" format:"date-time"`
	}

	// SettlementData describes a settlement, which credits money of claims to the company's balance.
	SettlementData struct {
		SettlementID   string      `json:"settlement_id"`
		CompanyID      string      `json:"company_id"`
		Currency       money.Asset `json:"currency"`
		Amount         string      `json:"amount"`
		EarnedCurrency money.Asset `json:"earned_currency"`
		Earned         string      `json:"earned_amount"`
		Rate           string      `json:"rate,omitempty"`
		WithdrawalID   string      `json:"withdrawal_id"`
	}

	// MerchantSettingsData describes the merchant settings after a change.
	MerchantSettingsData struct {
		CompanyID     string      `json:"company_id"`
		ToleranceBps  int64       `json:"tolerance_bps"`
		Confirmations int64       `json:"confirmations"`
		LatePolicy    string      `json:"late_policy" enum:"manual,requote,refund"`
		GraceSeconds  int64       `json:"late_grace_seconds"`
		SettleIn      string      `json:"settlement_currency"`
		Schedule      string      `json:"settlement_schedule" enum:"manual,daily,weekly"`
		TimeZone      string      `json:"settlement_time_zone"`
		Day           string      `json:"settlement_day" enum:"sunday,monday,tuesday,wednesday,thursday,friday,saturday"`
		ConvertTo     money.Asset `json:"settlement_convert_to"`
		DestinationID string      `json:"settlement_destination_id"`
		SupportEmail  string      `json:"support_email"`
		Origins       []string    `json:"origins"`
	}

	// PaymentLinkData describes a payment link.
	PaymentLinkData struct {
		LinkID      string      `json:"payment_link_id"`
		CompanyID   string      `json:"company_id"`
		Title       string      `json:"title"`
		Active      bool        `json:"active"`
		Currency    money.Asset `json:"denomination_currency"`
		Amount      string      `json:"denomination_amount"`
		MaxPayments int64       `json:"max_payments"`
		Paid        int64       `json:"paid_count"`
		URL         string      `json:"url"`
	}

	// MerchantBrandingData describes the branding of the merchant's pages after a change.
	MerchantBrandingData struct {
		CompanyID string   `json:"company_id"`
		Name      string   `json:"display_name"`
		Accent    string   `json:"accent_color"`
		Headline  string   `json:"headline"`
		ThankYou  string   `json:"thank_you"`
		Languages []string `json:"languages"`
		LogoPath  string   `json:"logo_path"`
	}

	// PayoutDelayedData summarizes the released payouts of one currency that cannot be sent yet.
	PayoutDelayedData struct {
		Reason   string       `json:"reason" enum:"fee_too_high,insufficient_funds,not_estimated"`
		Waiting  int64        `json:"waiting"`
		Amount   money.Amount `json:"amount"`
		Currency money.Asset  `json:"currency"`
		Network  string       `json:"network"`
		Since    time.Time    `json:"since"`
	}

	// PayoutReturnedData describes a payout that the bank returned.
	PayoutReturnedData struct {
		PayoutID       string       `json:"payout_id"`
		PayrollID      string       `json:"payroll_id"`
		SubpayrollID   string       `json:"subpayroll_id"`
		DistributionID string       `json:"distribution_id"`
		Amount         money.Amount `json:"amount"`
		Currency       money.Asset  `json:"currency"`
		Reason         string       `json:"reason"`
		ReasonText     string       `json:"reason_text"`
		BankText       string       `json:"bank_text"`
		Returned       time.Time    `json:"returned"`
	}

	// UserData describes a new user.
	UserData struct {
		UserID    string `json:"user_id"`
		CompanyID string `json:"company_id"`
		Email     string `json:"email"`
		Product   string `json:"product" enum:"worker"`
		KYCStatus string `json:"kyc_status"`
	}

	// UserVerificationData describes the verification of a user.
	UserVerificationData struct {
		UserID  string   `json:"user_id"`
		Status  string   `json:"status"`
		Reasons []string `json:"reasons"`
	}

	// CompanyVerificationData describes the verification of the company.
	CompanyVerificationData struct {
		CompanyID string   `json:"company_id"`
		Status    string   `json:"status"`
		State     string   `json:"state"`
		Reasons   []string `json:"reasons"`
	}

	// FundingAccountData describes an account for incoming money of a user or company.
	FundingAccountData struct {
		UserID           string      `json:"user_id"`
		CompanyID        string      `json:"company_id"`
		FundingAccountID string      `json:"funding_account_id"`
		Currency         money.Asset `json:"currency"`
		Status           string      `json:"status"`
		PreviousStatus   string      `json:"previous_status,omitempty"`
		Reason           string      `json:"reason,omitempty"`
	}

	// RecipientData describes a recipient after a change.
	RecipientData struct {
		RecipientID    string `json:"recipient_id"`
		RecipientType  string `json:"recipient_type" enum:"user,company"`
		RelationshipID string `json:"relationship_id"`
		CompanyID      string `json:"company_id"`
		ExternalID     string `json:"external_id"`
		Status         string `json:"status" enum:"pending,active,inactive"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	// InvitationData describes an invitation after a change.
	InvitationData struct {
		InvitationID string `json:"invitation_id"`
		CompanyID    string `json:"company_id"`
		Email        string `json:"email"`
		Role         string `json:"role" enum:"contractor,employee"`
		Status       string `json:"status" enum:"sent,accepted,expired,revoked"`
		ResendCount  int    `json:"resend_count"`
		UserID       string `json:"user_id"`
		Reason       string `json:"reason" enum:",revoked,declined"`
	}

	// DestinationChangeData describes a change of payment destinations. It omits the account or address.
	DestinationChangeData struct {
		CompanyID     string             `json:"company_id,omitempty"`
		RecipientID   string             `json:"recipient_id"`
		UserID        string             `json:"user_id"`
		Change        string             `json:"change" enum:"added,replaced,removed,reallocated"`
		Distributions []DestinationShare `json:"distributions"`
	}

	// DestinationShare describes a destination and the share that it receives.
	DestinationShare struct {
		DistributionID string      `json:"distribution_id"`
		Symbol         money.Asset `json:"symbol"`
		Allocation     int         `json:"allocation"`

		FixedAmount   money.Amount `json:"fixed_amount"`
		FixedCurrency money.Asset  `json:"fixed_currency"`
	}

	// CorrectionData describes a correction of a destination that a bank requested.
	CorrectionData struct {
		CompanyID      string    `json:"company_id,omitempty"`
		RecipientID    string    `json:"recipient_id"`
		UserID         string    `json:"user_id"`
		DistributionID string    `json:"distribution_id"`
		CorrectionID   string    `json:"correction_id"`
		Symbol         string    `json:"symbol"`
		Code           string    `json:"code"`
		Reason         string    `json:"reason"`
		Members        []string  `json:"members"`
		PayrollID      string    `json:"payroll_id"`
		SubpayrollID   string    `json:"subpayroll_id"`
		PayoutID       string    `json:"payout_id"`
		Asked          time.Time `json:"asked"`
	}

	// AccountCheckData describes the result of a check of a bank account.
	AccountCheckData struct {
		RecipientID    string    `json:"recipient_id"`
		UserID         string    `json:"user_id"`
		DistributionID string    `json:"distribution_id"`
		Symbol         string    `json:"symbol"`
		Method         string    `json:"method" enum:"verification_of_payee,prenote"`
		Result         string    `json:"result" enum:"match,close_match,no_match,not_possible,accepted,returned"`
		Code           string    `json:"code"`
		Checked        time.Time `json:"checked"`
	}

	// PayerData describes a payer after a change. It omits the payer's personal details.
	PayerData struct {
		ExternalCompanyID string      `json:"external_company_id"`
		CompanyID         string      `json:"company_id"`
		UserID            string      `json:"user_id"`
		Name              string      `json:"name"`
		Type              string      `json:"company_type" enum:"employer,client"`
		Currency          money.Asset `json:"payroll_invoice_currency"`
		Status            string      `json:"status" enum:"active,deleted"`
		PreviousStatus    string      `json:"previous_status,omitempty" enum:"active,deleted"`
	}

	// InvoiceData describes an invoice after a change.
	InvoiceData struct {
		InvoiceID         string       `json:"invoice_id"`
		UserID            string       `json:"user_id"`
		ExternalCompanyID string       `json:"external_company_id"`
		Number            string       `json:"number"`
		Status            string       `json:"status"`
		PreviousStatus    string       `json:"previous_status,omitempty"`
		Currency          money.Asset  `json:"currency"`
		Total             money.Amount `json:"total"`
		Paid              money.Amount `json:"paid"`
		DueDate           string       `json:"due_date"`
		PayrollID         string       `json:"payroll_id"`
		SubpayrollID      string       `json:"subpayroll_id"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}

	// TransferData describes an incoming bank transfer. It omits the sender's name and the payment reference.
	TransferData struct {
		CompanyID         string      `json:"company_id"`
		UserID            string      `json:"user_id"`
		TransferID        string      `json:"transfer_id"`
		Status            string      `json:"status" enum:"credited,returned,suspense"`
		PreviousStatus    string      `json:"previous_status,omitempty" enum:"credited,returned,suspense"`
		Currency          money.Asset `json:"currency"`
		Amount            string      `json:"amount"`
		PayrollID         string      `json:"payroll_id"`
		InvoiceID         string      `json:"invoice_id"`
		ExternalCompanyID string      `json:"external_company_id"`
	}

	// IncomeData describes an income of a user after a change.
	IncomeData struct {
		IncomeID          string          `json:"income_id"`
		UserID            string          `json:"user_id"`
		CompanyID         string          `json:"company_id"`
		Status            string          `json:"status"`
		PreviousStatus    string          `json:"previous_status,omitempty"`
		Reason            string          `json:"reason"`
		Currency          money.Asset     `json:"currency"`
		Amount            money.Amount    `json:"amount"`
		Withheld          money.Amount    `json:"withheld"`
		Fees              money.Amount    `json:"fees"`
		TransferID        string          `json:"transfer_id"`
		InvoiceID         string          `json:"invoice_id"`
		ExternalCompanyID string          `json:"external_company_id"`
		Outputs           []PaymentOutput `json:"outputs"`
	}

	// WithdrawalData describes a withdrawal after a change.
	WithdrawalData struct {
		WithdrawalID  string       `json:"withdrawal_id"`
		Status        string       `json:"status"`
		Reason        string       `json:"reason"`
		DestinationID string       `json:"destination_id"`
		Amount        money.Amount `json:"amount"`
		Currency      money.Asset  `json:"currency"`
		TxHash        string       `json:"tx_hash"`
		ExternalID    string       `json:"external_id"`
	}

	// DirectDebitMandateData describes a mandate after a change.
	DirectDebitMandateData struct {
		MandateID      string      `json:"mandate_id"`
		Scheme         string      `json:"scheme" enum:"sepa_core,sepa_b2b,ach_ccd,ach_web"`
		Reference      string      `json:"reference"`
		Status         string      `json:"status" enum:"pending,active,suspended,revoked,ended"`
		PreviousStatus string      `json:"previous_status" enum:",pending,active,suspended,revoked,ended"`
		Reason         string      `json:"reason"`
		Currency       money.Asset `json:"currency"`
	}

	// DirectDebitData describes a direct debit after a change.
	DirectDebitData struct {
		DebitID        string       `json:"debit_id"`
		MandateID      string       `json:"mandate_id"`
		Status         string       `json:"status"`
		PreviousStatus string       `json:"previous_status"`
		Reason         string       `json:"reason"`
		Amount         money.Amount `json:"amount"`
		Currency       money.Asset  `json:"currency"`
		ReleasedAmount money.Amount `json:"released_amount"`
		DueOn          string       `json:"due_on"`
		HeldUntil      string       `json:"held_until"`
		RetryOf        string       `json:"retry_of"`
		PayrollID      string       `json:"payroll_id"`
		ExternalID     string       `json:"external_id"`
	}

	// WalletData describes a wallet after a change.
	WalletData struct {
		WalletID string      `json:"wallet_id"`
		Currency money.Asset `json:"currency"`
		Status   string      `json:"status" enum:"pending,in_progress,completed,rejected"`
		Reason   string      `json:"reason" enum:",currency_not_supported,company_frozen"`
		Address  string      `json:"address"`
	}

	// WalletDepositData describes an incoming deposit to a wallet.
	WalletDepositData struct {
		WalletID              string       `json:"wallet_id"`
		DepositID             string       `json:"deposit_id"`
		PaidTo                string       `json:"paid_to"`
		Held                  bool         `json:"held"`
		Status                string       `json:"status" enum:"seen,confirmed,reverted,replaced,evicted"`
		PreviousStatus        string       `json:"previous_status" enum:",seen,confirmed,reverted,replaced,evicted"`
		Currency              money.Asset  `json:"currency"`
		Amount                money.Amount `json:"amount"`
		Chain                 string       `json:"chain"`
		Address               string       `json:"address"`
		TxHash                string       `json:"tx_hash"`
		Vout                  int64        `json:"vout"`
		FirstSeen             string       `json:"first_seen" format:"date-time"`
		ConfirmationsRequired int64        `json:"confirmations_required"`
	}

	// EndpointData describes a webhook endpoint that was enabled or disabled.
	EndpointData struct {
		WebhookID string `json:"webhook_id"`
		Status    string `json:"status" enum:"enabled,disabled_auto,disabled_manual"`
		Reason    string `json:"reason" enum:",requested,gone,failing"`
	}

	// TestData is the payload of a test event.
	TestData struct {
		WebhookID string `json:"webhook_id"`
		Message   string `json:"message"`
	}
)

// FormatTime formats a time as in payloads: RFC 3339, UTC, in whole seconds or milliseconds.
func FormatTime(t time.Time) string {
	t = t.UTC().Truncate(time.Millisecond)
	if t.Nanosecond() == 0 {
		return t.Format(time.RFC3339)
	}
	return t.Format("2006-01-02T15:04:05.000Z07:00")
}
