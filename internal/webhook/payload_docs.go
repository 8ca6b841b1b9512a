package webhook

import (
	"reflect"
	"strings"
)

// MemberDoc describes a member of a payload in the contract.
type MemberDoc struct {
	Doc     string
	Example string   // JSON; may be empty
	Values  []string // the possible values of the member; nil if any value is possible
}

// The states in payloads, for fields whose list of states is too long for an enum tag.
var (
	payrollStates = strings.Fields(`
		pending received released fulfilled partially_fulfilled cancelled on_hold expired_unfunded`)
	paymentStates = strings.Fields(`
		pending received released fulfilled action_required on_hold returned cancelled awaiting_payment partially_paid
		confirming paid expired underpaid paid_late invalid refunded`)
	claimStates = strings.Fields(`
		awaiting_payment partially_paid confirming paid expired underpaid paid_late invalid refunded cancelled`)
	userVerificationStates = strings.Fields(`
		not_started pending in_review approved resubmission_required rejected expired`)
	companyVerificationStates = strings.Fields(`
		not_started pending in_review approved resubmission_required rejected suspended`)
	companyVerificationSteps = strings.Fields(`
		draft documents_pending submitted in_review ubo_pending approved more_info rejected suspended`)
	fundingAccountStates = strings.Fields(`
		requested terms_pending pending active suspended closed`)
	invoiceStates = strings.Fields(`
		draft sent in_payroll partially_paid paid overdue void`)
	incomeStates = strings.Fields(`
		received released fulfilled action_required on_hold returned cancelled`)
	directDebitStates = strings.Fields(`
		scheduled submitting submitted collected available failed returned cancelled`)
	withdrawalStates = strings.Fields(`
		pending awaiting_approval on_hold processing completed returned failed declined cancelled`)
)

// Descriptions of the member previous_status.
const (
	changedFrom   = "The state before. Absent when it is the same."
	previousState = "The state before. Absent when it was created."
)

// MemberDocs describes members of payloads by type and JSON name. A member that is not listed has the same meaning as
// elsewhere in the API.
var MemberDocs = map[reflect.Type]map[string]MemberDoc{
	reflect.TypeFor[PayrollData](): {
		"status":          {Values: payrollStates},
		"previous_status": {Doc: changedFrom, Values: payrollStates},
		"reason":          {Doc: "Why the state changed."},
		"payees":          {Doc: "Number of payees."},
		"metadata":        {Doc: "The payroll's metadata; absent if it has none."},
		"pay_date":        {Doc: "The day on which payees are paid; empty if they are paid as soon as it is funded."},
		"period_start":    {Doc: "First day of the pay period; empty for none."},
		"period_end":      {Doc: "Last day of the pay period; empty for none."},
		"quote":           {Doc: "The newest quote. Absent unless the payroll is funded by crypto."},
	},
	reflect.TypeFor[ProposalData](): {
		"kind":            {Doc: "What it proposes."},
		"previous_status": {Doc: previousState},
		"amount":          {Doc: "Amount of the payroll or claim, without fees."},
		"payroll_id":      {Doc: "The payroll that a member created from it. Absent for others."},
		"claim_id":        {Doc: "The claim that a member created from it. Absent for others."},
	},
	reflect.TypeFor[PlatformCompanyData](): {
		"company_id":      {Doc: "The connected company."},
		"external_id":     {Doc: "The platform's reference; empty for none."},
		"previous_status": {Doc: changedFrom},
		"fee_bps":         {Doc: "The platform's fee on payrolls, in hundredths of a percent."},
	},
	reflect.TypeFor[ScheduleData](): {
		"name":            {Doc: "The company's name of the schedule."},
		"previous_status": {Doc: changedFrom},
		"next_run":        {Doc: "The day of the next run, before the working-day rule; empty if there is none."},
		"next_pay_date":   {Doc: "The pay date of the next run; empty if there is none."},
	},
	reflect.TypeFor[ScheduleRunData](): {
		"day":        {Doc: "The day of the run, before the working-day rule."},
		"pay_date":   {Doc: "The day on which its payees are paid."},
		"reason":     {Doc: "Why it waits, as an error code such as `insufficient_balance`, or `paused`."},
		"payroll_id": {Doc: "Its payroll; empty before it is created."},
	},
	reflect.TypeFor[PayrollQuoteData](): {
		"denomination_amount": {Doc: "The amount that the quote settles, in the payroll's currency."},
	},
	reflect.TypeFor[FundingDetectedData](): {
		"quote_id":               {Doc: "The quote that was in force, empty for a bank transfer."},
		"in_time":                {Doc: "Whether it was first seen before the quote expired."},
		"vout":                   {Doc: "Index of the output in its transaction."},
		"transfer_id":            {Doc: "The bank transfer, where it came by bank."},
		"first_seen":             {Doc: "When it was first seen."},
		"confirmations_required": {Doc: "Confirmations after which it counts."},
	},
	reflect.TypeFor[PaymentData](): {
		"user_id":       {Doc: "The payee; of a claim, the merchant's own reference for its customer."},
		"subpayroll_id": {Doc: "Null: it is the payment of a claim."},
		"payroll_id":    {Doc: "Absent for the payment of a claim."},
		"claim_id":      {Doc: "Null: it is a payment of a payroll."},
		"metadata":      {Doc: "The metadata of the payment of a payroll; absent if it has none."},
		"status":        {Doc: "State of the payment, or of the claim.", Values: paymentStates},
		"reason":        {Doc: "Why the state changed."},
		"payment":       {Doc: "The payment."},
	},
	reflect.TypeFor[Payment](): {
		"subpayroll_id": {Doc: "Null: it is the payment of a claim."},
		"received":      {Doc: "Whether its money has come in."},
		"released":      {Doc: "Whether it was released to be paid out."},
		"fulfilled":     {Doc: "Whether all of it has arrived."},
		"outputs":       {Doc: "Its outputs, one for each destination; empty before the release."},
	},
	reflect.TypeFor[PaymentOutput](): {
		"input_currency":                 {Doc: "Currency of the balance that pays it."},
		"output_currency":                {Doc: "Currency that the payee receives."},
		"volume_input_in_input_currency": {Doc: "Value in the input currency."},
		"fees":                           {Doc: "Its share of the fees."},
	},
	reflect.TypeFor[ClaimData](): {
		"status":              {Values: claimStates},
		"previous_status":     {Doc: changedFrom, Values: claimStates},
		"external_id":         {Doc: "The merchant's order number, unique per company; may be empty."},
		"metadata":            {Doc: "The metadata of the request that created the claim; absent if it had none."},
		"payment_link_id":     {Doc: "The payment link that created the claim; absent if none did."},
		"reverted":            {Doc: "Whether a payment that had counted was taken back by the chain."},
		"denomination_amount": {Doc: "The price, as decimal text."},
		"due_amount":          {Doc: "The part of the price that no payment seen in time covers; 0 once it is enough."},
		"seen_amount": {
			Doc: "The amount seen so far, confirmed or not, in the funding currency, as decimal text.",
		},
		"received_amount":   {Doc: "The confirmed part of seen_amount."},
		"refundable_amount": {Doc: "The amount that can be refunded now, in the funding currency, as decimal text."},
		"refunded_amount":   {Doc: "The amount refunded so far, in the funding currency, as decimal text."},
		"quote":             {Doc: "The newest quote."},
	},
	reflect.TypeFor[ClaimPrice](): {
		"rate": {
			Doc:     "Price of one whole unit of the funding currency in the denomination currency, as decimal text.",
			Example: `"50000"`,
		},
		"denomination_amount": {
			Doc: "The amount that the quote settles, as decimal text: the claim's amount, or the part of it that " +
				"is still due.",
		},
		"funding_amount": {
			Doc:     "The amount to pay, in the funding currency, as decimal text.",
			Example: `"0.00240000"`,
		},
	},
	reflect.TypeFor[RefundData](): {
		"refund_id":       {Doc: "Id of the refund."},
		"previous_status": {Doc: previousState},
		"amount":          {Doc: "Amount, as decimal text.", Example: `"0.00010000"`},
		"denomination_amount": {
			Doc: "The part of a paid claim's amount that is refunded, as decimal text. Absent if the money already is " +
				"the payer's.",
		},
		"cost_amount":   {Doc: "What a refund of a paid claim costs the merchant, as decimal text."},
		"cost_currency": {Doc: "Currency of cost_amount."},
	},
	reflect.TypeFor[SettlementData](): {
		"settlement_id": {Doc: "Id of the settlement."},
		"amount":        {Doc: "The amount that was credited to the balance, as decimal text.", Example: `"119.40"`},
		"earned_amount": {
			Doc:     "The money of claims that was settled, as decimal text. It differs from amount if it was exchanged.",
			Example: `"0.00240000"`,
		},
		"earned_currency": {Doc: "Currency of earned_amount."},
		"rate": {
			Doc:     "Price of one unit of the earned currency, as decimal text. Absent if nothing was exchanged.",
			Example: `"49750"`,
		},
		"withdrawal_id": {Doc: "The withdrawal that pays it out, empty where it stays in the balance."},
	},
	reflect.TypeFor[PaymentLinkData](): {
		"payment_link_id":     {Doc: "Id of the payment link."},
		"title":               {Doc: "What payers pay for."},
		"active":              {Doc: "Whether the link takes payments."},
		"denomination_amount": {Doc: "The fixed amount, as decimal text; empty if the payer chooses."},
		"max_payments":        {Doc: "Number of payments after which the link ends; 0 for no limit."},
		"paid_count":          {Doc: "Number of paid claims."},
		"url":                 {Doc: "Public URL of the link."},
	},
	reflect.TypeFor[MerchantBrandingData](): {
		"display_name": {Doc: "Name that payers see; empty for the company's name."},
		"accent_color": {Doc: "Color such as `#1d3f8f`; empty for the service's."},
		"headline":     {Doc: "Text of the checkout; may be empty."},
		"thank_you":    {Doc: "Text after the payment and in the receipt; may be empty."},
		"languages":    {Doc: "Languages offered to payers; empty for all."},
		"logo_path":    {Doc: "Path of the logo below the base URL; empty if there is none."},
	},
	reflect.TypeFor[PayoutDelayedData](): {
		"reason":  {Doc: "Why they wait."},
		"waiting": {Doc: "Number of payouts of the currency that wait."},
		"since":   {Doc: "When they began to wait."},
	},
	reflect.TypeFor[PayoutReturnedData](): {
		"payout_id":   {Doc: "Id of the output of the payment.", Example: `"out_06gf58g6w3sm743akvrytz3w8m"`},
		"reason":      {Doc: "The bank's code, such as AC04 or R03."},
		"reason_text": {Doc: "Meaning of the code."},
		"bank_text":   {Doc: "The bank's explanation."},
		"returned":    {Doc: "When the bank reported it."},
	},
	reflect.TypeFor[UserData](): {
		"kyc_status": {Values: userVerificationStates},
	},
	reflect.TypeFor[UserVerificationData](): {
		"status":  {Values: userVerificationStates},
		"reasons": {Doc: "Codes of the problems, if any."},
	},
	reflect.TypeFor[CompanyVerificationData](): {
		"status":  {Values: companyVerificationStates},
		"state":   {Doc: "The step of the verification.", Values: companyVerificationSteps},
		"reasons": {Doc: "Codes of the problems, if any."},
	},
	reflect.TypeFor[FundingAccountData](): {
		"user_id":         {Doc: "The user, empty for an account of the company."},
		"status":          {Values: fundingAccountStates},
		"previous_status": {Doc: previousState, Values: fundingAccountStates},
		"reason":          {Doc: "Why the state changed."},
	},
	reflect.TypeFor[InvitationData](): {
		"resend_count": {Doc: "Number of times that it was sent again."},
		"user_id":      {Doc: "The user who accepted it. Empty before."},
		"reason":       {Doc: "Why it was revoked; empty unless it was."},
	},
	reflect.TypeFor[DestinationChangeData](): {
		"company_id":    {Doc: "The company, where the destination is its own."},
		"recipient_id":  {Doc: "The payee, empty for a destination of the company."},
		"user_id":       {Doc: "The payee's user, empty without one."},
		"change":        {Doc: "The kind of change."},
		"distributions": {Doc: "The destinations that changed."},
	},
	reflect.TypeFor[DestinationShare](): {
		"allocation":     {Doc: "Share in percent after the change, of what the fixed amounts leave.", Example: `100`},
		"fixed_amount":   {Doc: "Amount of each payment that is paid first, or 0.", Example: `0`},
		"fixed_currency": {Doc: "Currency of the fixed amount, or empty.", Example: `""`},
	},
	reflect.TypeFor[CorrectionData](): {
		"company_id":    {Doc: "The company, where the destination is its own."},
		"recipient_id":  {Doc: "The payee, empty for a destination of the company."},
		"user_id":       {Doc: "The payee's user, empty without one."},
		"correction_id": {Doc: "Id of the correction."},
		"code":          {Doc: "The bank's code, such as C01.", Example: `"C01"`},
		"reason":        {Doc: "Meaning of the code."},
		"members":       {Doc: "Members of the destination that should change."},
		"payroll_id":    {Doc: "The payroll whose payment showed it, empty for a withdrawal."},
		"subpayroll_id": {Doc: "The payment that showed it, empty for a withdrawal."},
		"payout_id":     {Doc: "The output that showed it.", Example: `"out_06gf58g6w3sm743akvrytz3w8m"`},
		"asked":         {Doc: "When the bank asked for it."},
	},
	reflect.TypeFor[AccountCheckData](): {
		"recipient_id": {Doc: "The payee."},
		"user_id":      {Doc: "The payee's user, empty without one."},
		"method":       {Doc: "Verification of Payee, or a prenote."},
		"result":       {Doc: "The result. A prenote is accepted or returned, a name is compared."},
		"code":         {Doc: "The bank's code for a returned prenote, or empty.", Example: `"R03"`},
		"checked":      {Doc: "When the result arrived."},
	},
	reflect.TypeFor[PayerData](): {
		"user_id":         {Doc: "The user whose payer it is, empty for a payer of the company."},
		"previous_status": {Doc: previousState},
	},
	reflect.TypeFor[RecipientData](): {
		"metadata": {Doc: "The recipient's metadata; absent if it has none."},
	},
	reflect.TypeFor[InvoiceData](): {
		"status": {Values: invoiceStates},
		"previous_status": {
			Doc: "The state before. Absent when it was created, or only its metadata changed.", Values: invoiceStates,
		},
		"paid":          {Doc: "The amount paid so far."},
		"metadata":      {Doc: "The invoice's metadata; absent if it has none."},
		"payroll_id":    {Doc: "The payroll that pays it, empty without one."},
		"subpayroll_id": {Doc: "The payment that pays it, empty without one."},
	},
	reflect.TypeFor[TransferData](): {
		"user_id": {Doc: "The user who owns it, empty where the company does."},
		"transfer_id": {
			Doc:     "Id of the transfer; the source_id of its transaction.",
			Example: `"trf_06gf58g6w0aychq170kks701q0"`,
		},
		"previous_status":     {Doc: "The state before. Absent when it was received."},
		"amount":              {Doc: "Amount, as decimal text.", Example: `"100.00"`},
		"payroll_id":          {Doc: "The payroll that it funds, empty without one."},
		"invoice_id":          {Doc: "The invoice that it pays, empty without one."},
		"external_company_id": {Doc: "The payer who sent it, empty without one."},
	},
	reflect.TypeFor[IncomeData](): {
		"status":          {Values: incomeStates},
		"previous_status": {Doc: previousState, Values: incomeStates},
		"reason":          {Doc: "Why it waits or has ended, empty without a reason."},
		"withheld":        {Doc: "Part of the amount that a reversed transfer took from the balance before the release."},
		"fees":            {Doc: "The operator's fee, 0 before the release."},
		"transfer_id": {
			Doc:     "The transfer by which it came.",
			Example: `"trf_06gf58g6w0aychq170kks701q0"`,
		},
		"invoice_id":          {Doc: "The invoice that the transfer pays, empty without one."},
		"external_company_id": {Doc: "The payer who sent it, empty without one."},
		"outputs":             {Doc: "What is paid to each destination, empty before the release."},
	},
	reflect.TypeFor[WithdrawalData](): {
		"status": {Values: withdrawalStates},
		"reason": {Doc: "Why it has the state, empty without a reason."},
	},
	reflect.TypeFor[DirectDebitMandateData](): {
		"reference":       {Doc: "The unique mandate reference, which the company's bank shows."},
		"previous_status": {Doc: "The state before, empty when the mandate was accepted."},
		"reason":          {Doc: "Why it has the state: a bank's reason code such as `AC04`; empty without a reason."},
	},
	reflect.TypeFor[DirectDebitData](): {
		"status": {Values: directDebitStates},
		"previous_status": {
			Doc: "The state before, empty when it was created.", Values: append([]string{""}, directDebitStates...),
		},
		"reason":          {Doc: "Why it has the state: a bank's reason code such as `R01`; empty without a reason."},
		"released_amount": {Doc: "Part of the amount that was credited to the balance."},
		"due_on":          {Doc: "The day on which the account is debited."},
		"held_until":      {Doc: "When the hold ends, UTC; empty before the money was collected."},
		"retry_of":        {Doc: "The returned direct debit that it repeats, empty for none."},
	},
	reflect.TypeFor[WalletData](): {
		"reason": {Doc: "Why it was rejected; empty unless it was."},
	},
	reflect.TypeFor[WalletDepositData](): {
		"wallet_id": {Doc: "The wallet, empty where the money came to the address of another object."},
		"paid_to": {Doc: "The wallet, payroll or claim whose address received the money; empty if none is known.",
			Example: `"wal_06gf58g6w0aychq170kks701q0"`},
		"held": {Doc: "True while the money is not credited because its address expects another currency. The operator " +
			"credits it or sends it back."},
		"previous_status":        {Doc: "The state before, empty when it was first seen."},
		"chain":                  {Doc: "The network on which it came.", Example: `"bitcoin"`},
		"vout":                   {Doc: "Index of the output in its transaction."},
		"first_seen":             {Doc: "When it was first seen."},
		"confirmations_required": {Doc: "Confirmations after which it counts."},
	},
	reflect.TypeFor[EndpointData](): {
		"reason": {Doc: "Why it is disabled; empty when it is enabled."},
	},
	reflect.TypeFor[TestData](): {
		"message": {Doc: "A message for people."},
	},
}
