package webhook

import (
	"time"

	"github.com/stipend/stipend/internal/money"
)

// IDs and other values in the examples.
const (
	exampleCompany     = "com_06gf58g6w1v5s708fp7tx3xdw0"
	exampleUser        = "usr_06gf58g6w28xgvfnbjvbc8gg88"
	exampleRecipient   = "rec_06gf58g6w2tn3zzsvyjtccxcc8"
	exampleDestination = "dst_06gf58g6w1zrmrgar2qn4p0wcw"
	examplePayroll     = "prl_06gf58g6w2pq0pzjvm15cwn7n4"
	examplePayment     = "pmt_06gf58g6w2b01306dn9h8c6vcg"
	exampleOutput      = "out_06gf58g6w3sm743akvrytz3w8m"
	exampleQuote       = "quo_06gf58g6w2sp4kq83hxe3nh5pm"
	exampleDeposit     = "dep_06gf58g6w2kvkqtk50xh3s8knw"
	exampleClaim       = "clm_06gf58g6w17gqvggteagdzt4pg"
	examplePayer       = "pyr_06gf58g6w1sd2bmncbk8f913rm"
	exampleInvoice     = "inv_06gf58g6w2b0ta81jn2xqare0m"
	exampleWallet      = "wal_06gf58g6w0aychq170kks701q0"
	exampleWithdrawal  = "wdr_06gf58g6w0aychq170kks701q0"
	exampleEndpoint    = "whk_06gf58g6w2messfavdnba8x1fm"

	exampleAddress = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
	exampleTxHash  = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"
	exampleFrom    = "2026-09-30T14:05:00Z"
	exampleTo      = "2026-09-30T14:35:00Z"
)

var exampleTime = time.Date(2026, time.September, 30, 14, 5, 0, 0, time.UTC)

func exampleRate(base, quote money.Asset, text string) money.Rate {
	r, err := money.ParseRate(base, quote, text)
	if err != nil {
		panic(err)
	}
	return r
}

func btc(satoshi int64) money.Amount { return money.New(money.BTC, satoshi) }

func usd(cents int64) money.Amount { return money.New(money.USD, cents) }

func eur(cents int64) money.Amount { return money.New(money.EUR, cents) }

func with[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

func pointer[T any](value T) *T { return &value }

// Payrolls.
var (
	examplePayrollQuote = PayrollQuote{
		QuoteID: exampleQuote, ValidFrom: exampleFrom, ValidTo: exampleTo, Rate: exampleRate(money.BTC, money.USD, "50000"),
		FundingCurrency: money.BTC, FundingAmount: btc(2_526_020), FundingDetails: FundingDetails{exampleAddress, "mainnet"},
	}
	examplePayrollData = PayrollData{
		PayrollID: examplePayroll, CompanyID: exampleCompany, ExternalID: "run-2026-09",
		Status: "pending", FundingState: "none",
		Currency: money.USD, FundingMethod: "crypto", FundingCurrency: money.BTC, Fees: usd(1251), Volume: usd(125050),
		Total: usd(126301), Funded: btc(0), Payees: 1, PayDate: "2026-10-01",
		PeriodStart: "2026-09-01", PeriodEnd: "2026-09-30", Quote: &examplePayrollQuote,
		Metadata: map[string]string{"cost_center": "42"},
	}
	examplePayrollQuoteData = PayrollQuoteData{
		PayrollID: examplePayroll, PayrollQuote: examplePayrollQuote, Status: "active",
		DenominationCurrency: money.USD, DenominationAmount: usd(126301),
	}

	exampleSchedule = ScheduleData{
		ScheduleID: "sch_06gf58g6w0aychq170kks701q0", CompanyID: exampleCompany, Name: "Salaries", Status: "active",
		Frequency: "monthly", NextRun: "2026-10-31", NextPayDate: "2026-10-30",
	}

	exampleProposal = ProposalData{
		ProposalID: "pps_06gf58g6w0aychq170kks701q0", CompanyID: exampleCompany, Kind: "payroll", Status: "open",
		Currency: money.USD, Amount: usd(125050),
	}

	examplePlatformCompany = PlatformCompanyData{
		CompanyID: exampleCompany, ExternalID: "customer-17", Status: "connected", FeeBps: 50,
	}

	PlatformCompanyCreated = declare("platform.company_created",
		"A company was created by the platform. The event is of the platform's own company.", examplePlatformCompany)

	PlatformCompanyUpdate = declare("platform.company_update",
		"The fee of a connected company was changed, or the company disconnected the platform. The event is of the "+
			"platform's own company.",
		with(examplePlatformCompany, func(d *PlatformCompanyData) {
			d.Status, d.PreviousStatus, d.FeeBps = "disconnected", "connected", 0
		}))

	ProposalCreated = declare("proposal.created", "An app proposed a payroll or a claim, which waits for a member.",
		exampleProposal)

	ProposalStatusUpdate = declare("proposal.status_update",
		"A member confirmed or declined a proposal, the app canceled it, or it expired.",
		with(exampleProposal, func(d *ProposalData) {
			d.Status, d.PreviousStatus, d.PayrollID = "confirmed", "open", examplePayroll
		}))

	ScheduleCreated = declare("schedule.created", "A schedule of payrolls was created.", exampleSchedule)

	ScheduleStatusUpdate = declare("schedule.status_update",
		"A schedule was changed, paused or resumed, or it ended.",
		with(exampleSchedule, func(d *ScheduleData) { d.Status, d.PreviousStatus = "paused", "active" }))

	ScheduleRunUpdate = declare("schedule.run_update",
		"The payroll of a scheduled run was created or cannot be created yet, or the run was skipped or changed.",
		ScheduleRunData{
			RunID: "run_06gf58g6w0aychq170kks701q0", ScheduleID: "sch_06gf58g6w0aychq170kks701q0", CompanyID: exampleCompany,
			Day: "2026-10-31", PayDate: "2026-10-30", Status: "waiting", Reason: "insufficient_balance",
		})

	PayrollCreated = declare("payroll.created", "A payroll was created.", examplePayrollData)

	PayrollUpdated = declare("payroll.updated",
		"A payroll was changed: its payees, amounts or reference before its funding, or its metadata.", examplePayrollData)

	PayrollStatusUpdate = declare("payroll.status_update", "A payroll's state or funding state changed.",
		with(examplePayrollData, func(d *PayrollData) {
			d.Status, d.PreviousStatus, d.FundingState, d.Reason = "received", "pending", "funded", "funding_confirmed"
			d.Funded = btc(2_526_020)
		}))

	PayrollFundingDetected = declare("payroll.funding_detected",
		"Incoming money for a payroll was seen. It does not count until it is confirmed.",
		FundingDetectedData{
			PayrollID: examplePayroll, DepositID: exampleDeposit, QuoteID: exampleQuote, Status: "seen", InTime: true,
			Currency: money.BTC, Amount: btc(2_526_020), Address: exampleAddress, TxHash: exampleTxHash,
			FirstSeen: exampleFrom, ConfirmationsRequired: 2,
		})

	PayrollFundingLate = declare("payroll.funding_late",
		"Money for a payroll arrived after its quote had expired. It is held until the quote is refreshed or the payroll is "+
			"cancelled.",
		with(examplePayrollData, func(d *PayrollData) { d.FundingState, d.Funded = "late", btc(2_526_020) }))

	PayrollFundingReverted = declare("payroll.funding_reverted",
		"Money that had funded a payroll was reversed, by the blockchain or by the bank.",
		with(examplePayrollData, func(d *PayrollData) { d.FundingState = "confirming" }))

	PayrollQuoteExpired = declare("payroll.quote_expired", "A payroll's quote expired before it was paid.",
		with(examplePayrollQuoteData, func(d *PayrollQuoteData) { d.Status = "expired" }))

	PayrollQuoteRefreshed = declare("payroll.quote_refreshed", "A payroll has a new quote that replaces an expired one.",
		examplePayrollQuoteData)

	UserPaymentStatusUpdate = declare("user.payment_status_update",
		"The state of a payment changed: of a payee's payment of a payroll, or of a claim's payment.",
		PaymentData{
			UserID: exampleUser, SubpayrollID: pointer(examplePayment), PayrollID: examplePayroll, Status: "fulfilled",
			Payment: Payment{
				SubpayrollID: pointer(examplePayment), Received: true, Released: true, Fulfilled: true,
				Outputs: []PaymentOutput{{money.USD, money.BTC, usd(125050), btc(2_501_000), usd(1251), exampleTxHash}},
			},
		})

	PayoutDelayed = declare("payout.delayed",
		"Released payouts began to wait, for a lower network fee or for funds. It is sent once per currency, not for each "+
			"payout.",
		PayoutDelayedData{"fee_too_high", 12, btc(30_012_000), money.BTC, "bitcoin", exampleTime})

	PayoutReturned = declare("payout.returned", "A bank sent a payout back.",
		PayoutReturnedData{
			PayoutID: exampleOutput, PayrollID: examplePayroll, SubpayrollID: examplePayment, DistributionID: exampleDestination,
			Amount: usd(125050), Currency: money.USD, Reason: "R03", ReasonText: "no account, or the name does not fit",
			BankText: "NO ACCOUNT", Returned: exampleTime,
		})
)

// Merchant claims.
var (
	exampleClaimQuote = ClaimPrice{
		QuoteID: exampleQuote, ValidFrom: exampleFrom, ValidTo: "2026-09-30T14:20:00Z",
		Rate: "50000", DenominationAmount: "120.00",
		FundingAmount: "0.00240000", FundingDetails: FundingDetails{exampleAddress, "mainnet"},
	}
	exampleClaimData = ClaimData{
		ClaimID: exampleClaim, CompanyID: exampleCompany, PayerID: "customer-4711", ExternalID: "order-17",
		Metadata: map[string]string{"cart": "889"},
		Status:   "awaiting_payment", Exception: "none",
		Currency: money.EUR, Amount: "120.00", Due: "120.00", Funding: money.BTC, Seen: "0.00000000", Received: "0.00000000",
		Refundable: "0.00000000", Refunded: "0.00000000", CheckoutURL: "https://pay.example.com/pay/" + exampleClaim,
		Quote: &exampleClaimQuote,
	}
	examplePaymentLink = PaymentLinkData{
		LinkID: "plk_06gf58g6w0aychq170kks701q0", CompanyID: exampleCompany, Title: "Concert ticket", Active: true,
		Currency: money.EUR, Amount: "25.00", MaxPayments: 100, Paid: 3,
		URL: "https://pay.example.com/pay/plk_06gf58g6w0aychq170kks701q0",
	}
	exampleClaimQuoteData = ClaimQuoteData{
		ClaimID: exampleClaim, ClaimPrice: exampleClaimQuote, Status: "active", FundingCurrency: money.BTC,
		DenominationCurrency: money.EUR,
	}
	exampleRefund = RefundData{
		RefundID: "rfd_06gf58g6w0aychq170kks701q0", ClaimID: exampleClaim, CompanyID: exampleCompany, Status: "offered",
		Currency: money.BTC, Amount: "0.00010000", ExpiresAt: "2026-12-29T14:05:00Z",
		Value: "5.00", ValueCurrency: money.EUR, Cost: "5.01", CostCurrency: money.EUR,
	}

	ClaimCreated = declare("claim.created", "A claim was created.", exampleClaimData)

	ClaimStatusUpdate = declare("claim.status_update", "A claim's state or figures changed.",
		with(exampleClaimData, func(d *ClaimData) {
			d.Status, d.PreviousStatus, d.Due, d.TxHash = "paid", "confirming", "0.00", exampleTxHash
			d.Seen, d.Received = "0.00240000", "0.00240000"
		}))

	ClaimQuoteExpired = declare("claim.quote_expired", "A claim's quote expired before it was paid.",
		with(exampleClaimQuoteData, func(d *ClaimQuoteData) { d.Status = "expired" }))

	ClaimQuoteRefreshed = declare("claim.quote_refreshed", "A claim has a new quote that replaces an expired one.",
		exampleClaimQuoteData)

	RefundCreated = declare("refund.created", "A refund of a claim was created.", exampleRefund)

	RefundStatusUpdate = declare("refund.status_update",
		"A refund was approved, accepted, paid or withdrawn, or is offered again because its payout failed.",
		with(exampleRefund, func(d *RefundData) { d.Status, d.PreviousStatus, d.TxHash = "paid", "accepted", exampleTxHash }))

	SettlementCreated = declare("settlement.created",
		"The proceeds of claims were credited to the company's balance. If they are paid out, the withdrawal's events "+
			"report the payout.",
		SettlementData{"stl_06gf58g6w0aychq170kks701q0", exampleCompany, money.EUR, "119.40", money.BTC, "0.00240000",
			"49750", exampleWithdrawal})

	MerchantSettingsUpdate = declare("merchant.settings_update", "The merchant settings changed.",
		MerchantSettingsData{
			CompanyID: exampleCompany, ToleranceBps: 50, Confirmations: 1, LatePolicy: "requote", GraceSeconds: 300,
			SettleIn: "BTC", Schedule: "daily", TimeZone: "Europe/Paris", Day: "monday",
			SupportEmail: "help@shop.example", Origins: []string{"https://shop.example"},
		})

	PaymentLinkCreated = declare("payment_link.created", "A payment link was created.", examplePaymentLink)

	PaymentLinkUpdated = declare("payment_link.updated",
		"A payment link was changed. Its claims have events of their own.",
		with(examplePaymentLink, func(d *PaymentLinkData) { d.Active = false }))

	MerchantBrandingUpdate = declare("merchant.branding_update", "The branding of the merchant's pages changed.",
		MerchantBrandingData{
			CompanyID: exampleCompany, Name: "Corner Books", Accent: "#1d3f8f", Headline: "Your order at Corner Books",
			ThankYou: "We pack it today.", Languages: []string{"en", "fr"},
			LogoPath: "/logo/0123456789abcdef0123456789abcdef.png",
		})
)

// People and their destinations.
var (
	exampleRecipientData = RecipientData{
		RecipientID: exampleRecipient, RecipientType: "user", RelationshipID: "rel_06gf58g6w16389bj6g1srq4d38",
		CompanyID: exampleCompany, ExternalID: "worker-17", Status: "pending",
		Metadata: map[string]string{"cost_center": "42"},
	}
	exampleInvitation = InvitationData{
		InvitationID: "ivt_06gf58g6w100qc30sdjrkvr1n4", CompanyID: exampleCompany,
		Email: "ada@example.com", Role: "contractor",
		Status: "sent",
	}

	UserCreateUser = declare("user.create_user", "The company created a user.",
		UserData{exampleUser, exampleCompany, "ada@example.com", "worker", "not_started"})

	UserKYCStatusUpdate = declare("user.kyc_status_update", "The state of a user's verification changed.",
		UserVerificationData{exampleUser, "approved", []string{}})

	UserFundingAccountStatus = declare("user.funding_account_status",
		"A funding account was requested, or its state changed: of a user or of the company.",
		FundingAccountData{
			UserID: exampleUser, CompanyID: exampleCompany,
			FundingAccountID: "fac_06gf58g6w2y1gp9sf76hca02rw", Currency: money.EUR,
			Status: "active", PreviousStatus: "pending",
		})

	RecipientCreated = declare("recipient.created", "A recipient was created, or a user was linked to the company.",
		exampleRecipientData)

	RecipientStatusUpdate = declare("recipient.status_update", "A recipient's state changed.",
		with(exampleRecipientData, func(d *RecipientData) { d.Status = "active" }))

	InvitationSent = declare("invitation.sent", "A worker was invited, or the invitation was sent again.",
		exampleInvitation)

	InvitationAccepted = declare("invitation.accepted", "The invited person accepted.",
		with(exampleInvitation, func(d *InvitationData) { d.Status, d.UserID = "accepted", exampleUser }))

	InvitationRevoked = declare("invitation.revoked",
		"The company revoked the invitation, or the invited person declined it.",
		with(exampleInvitation, func(d *InvitationData) { d.Status, d.Reason = "revoked", "declined" }))

	InvitationExpired = declare("invitation.expired", "The invitation was not accepted in time.",
		with(exampleInvitation, func(d *InvitationData) { d.Status = "expired" }))

	DistributionChanged = declare("distribution.changed",
		"Payment destinations changed: of a payee or, with `company_id`, of the company itself.",
		DestinationChangeData{
			RecipientID: exampleRecipient, Change: "added",
			Distributions: []DestinationShare{{
				DistributionID: exampleDestination, Symbol: money.BTC, Allocation: 100,
			}},
		})

	DistributionCorrectionAsked = declare("distribution.correction_asked",
		"A bank asked for a correction of a payment destination.",
		CorrectionData{
			RecipientID: exampleRecipient, DistributionID: exampleDestination, CorrectionID: "cor_06gf58g6w0aychq170kks701q0",
			Symbol: "USD", Code: "C01", Reason: "the account number is another one", Members: []string{"account_number"},
			PayrollID: examplePayroll, SubpayrollID: examplePayment, PayoutID: exampleOutput, Asked: exampleTime,
		})

	DistributionCorrectionDisputed = declare("distribution.correction_disputed",
		"A payee says that the correction that a bank asked for is wrong. Payments to the destination wait.",
		CorrectionData{
			RecipientID: exampleRecipient, DistributionID: exampleDestination, CorrectionID: "cor_06gf58g6w0aychq170kks701q0",
			Symbol: "USD", Code: "C01", Reason: "the account number is another one", Members: []string{"account_number"},
			Asked: exampleTime,
		})

	DistributionChecked = declare("distribution.checked",
		"A bank checked the account of a payment destination.",
		AccountCheckData{
			RecipientID: exampleRecipient, DistributionID: exampleDestination, Symbol: "EUR",
			Method: "verification_of_payee", Result: "close_match", Checked: exampleTime,
		})
)

// Invoices and their payers.
var (
	examplePayerData = PayerData{
		ExternalCompanyID: examplePayer, CompanyID: exampleCompany, UserID: exampleUser, Name: "Globex Ltd", Type: "client",
		Currency: money.EUR, Status: "active",
	}
	exampleInvoiceData = InvoiceData{
		InvoiceID: exampleInvoice, UserID: exampleUser, ExternalCompanyID: examplePayer, Number: "2026-017", Status: "sent",
		Currency: money.EUR, Total: money.New(money.EUR, 120000), Paid: money.Zero(money.EUR), DueDate: "2026-10-30",
	}

	PayerCreated = declare("payer.created", "A payer was created.", examplePayerData)

	PayerStatusUpdate = declare("payer.status_update", "A payer was deleted.",
		with(examplePayerData, func(d *PayerData) { d.Status, d.PreviousStatus = "deleted", "active" }))

	InvoiceCreated = declare("invoice.created", "An invoice was created.", exampleInvoiceData)

	InvoiceStatusUpdate = declare("invoice.status_update", "An invoice's state or metadata changed.",
		with(exampleInvoiceData, func(d *InvoiceData) {
			d.Status, d.PreviousStatus, d.PayrollID, d.SubpayrollID = "paid", "in_payroll", examplePayroll, examplePayment
			d.Paid = d.Total
		}))
)

// The company and its money.
var (
	exampleTransfer = TransferData{
		CompanyID: exampleCompany, UserID: exampleUser, TransferID: "trf_06gf58g6w0aychq170kks701q0", Status: "credited",
		Currency: money.EUR, Amount: "100.00",
	}
	exampleIncome = IncomeData{
		IncomeID: "inc_06gf58g6w0aychq170kks701q0", UserID: exampleUser, CompanyID: exampleCompany,
		Status: "fulfilled", PreviousStatus: "released", Currency: money.EUR, Amount: eur(10_000), Withheld: eur(0),
		Fees: eur(100), TransferID: "trf_06gf58g6w0aychq170kks701q0",
		Outputs: []PaymentOutput{{money.EUR, money.BTC, eur(9_900), btc(198_000), eur(100), exampleTxHash}},
	}
	exampleWithdrawalData = WithdrawalData{
		WithdrawalID: exampleWithdrawal, Status: "pending", DestinationID: exampleDestination, Amount: btc(10_000),
		Currency: money.BTC, ExternalID: "payout-2026-09",
	}
	exampleDirectDebitData = DirectDebitData{
		DebitID: "ddb_06gf58g6w0aychq170kks701q0", MandateID: "mdt_06gf58g6w0aychq170kks701q0", Status: "scheduled",
		Amount: money.New(money.EUR, 2_500_00), Currency: money.EUR, ReleasedAmount: money.Zero(money.EUR),
		DueOn: "2026-10-15", ExternalID: "funding-2026-10",
	}
	exampleWalletData = WalletData{exampleWallet, money.BTC, "completed", "", exampleAddress}

	CompanyKYBStatusUpdate = declare("company.kyb_status_update", "The state of the company's verification changed.",
		CompanyVerificationData{exampleCompany, "approved", "approved", []string{}})

	TransferReceived = declare("transfer.received",
		"Money was received by bank transfer: to a funding account, for a payroll or for the balance. It is sent once the "+
			"owner is known. "+
			"A user's transfer is reported to the company for which the account was opened.",
		exampleTransfer)

	TransferStatusUpdate = declare("transfer.status_update", "A bank reversed a transfer that had been received.",
		with(exampleTransfer, func(d *TransferData) { d.Status, d.PreviousStatus = "returned", "credited" }))

	IncomeReceived = declare("income.received", "A user received money, which is paid to the user's destinations.",
		with(exampleIncome, func(d *IncomeData) {
			d.Status, d.PreviousStatus, d.Fees, d.Outputs = "received", "", money.Zero(money.EUR), []PaymentOutput{}
		}))

	IncomeStatusUpdate = declare("income.status_update", "The state of a user's income changed.", exampleIncome)

	WithdrawalCreated = declare("withdrawal.created", "A withdrawal was created.", exampleWithdrawalData)

	WithdrawalStatusUpdate = declare("withdrawal.status_update", "A withdrawal's state changed.",
		with(exampleWithdrawalData, func(d *WithdrawalData) { d.Status, d.TxHash = "completed", exampleTxHash }))

	DirectDebitMandateUpdate = declare("direct_debit_mandate.status_update",
		"A mandate for direct debits was accepted, or its state changed.",
		DirectDebitMandateData{"mdt_06gf58g6w0aychq170kks701q0", "sepa_b2b", "MDT-06GF58G6W0AYCHQ170KKS701Q0", "active", "",
			"", money.EUR})

	DirectDebitCreated = declare("direct_debit.created", "A direct debit was scheduled and announced.",
		exampleDirectDebitData)

	DirectDebitUpdate = declare("direct_debit.status_update",
		"A direct debit's state changed: it was sent, collected, released to the balance, refused or returned.",
		with(exampleDirectDebitData, func(d *DirectDebitData) {
			d.Status, d.PreviousStatus, d.HeldUntil = "collected", "submitted", "2026-10-20T14:00:00Z"
		}))

	WalletCreated = declare("wallet.created", "A wallet was requested.",
		with(exampleWalletData, func(d *WalletData) { d.Status, d.Address = "pending", "" }))

	WalletStatusUpdate = declare("wallet.status_update", "A wallet's state changed.", exampleWalletData)

	WalletDepositUpdate = declare("wallet.deposit_update",
		"An incoming payment to a wallet was seen, or its state changed. Also sent for money in a currency that its address "+
			"does not expect.",
		WalletDepositData{
			WalletID: exampleWallet, DepositID: exampleDeposit, PaidTo: exampleWallet, Status: "confirmed",
			PreviousStatus: "seen", Currency: money.BTC, Amount: btc(100_000), Chain: "bitcoin", Address: exampleAddress,
			TxHash: exampleTxHash, FirstSeen: exampleFrom, ConfirmationsRequired: 1,
		})
)

// Webhook endpoints.
var (
	WebhookStatusUpdate = declare("webhook.status_update", "A webhook endpoint was disabled or enabled.",
		EndpointData{exampleEndpoint, "disabled_auto", "failing"})

	// WebhookTest is delivered only to the endpoint that is the event's object.
	WebhookTest = declare("webhook.test", "A test of an endpoint was requested. Only that endpoint receives it.",
		TestData{exampleEndpoint, "This is a test. Nothing has happened."})
)
