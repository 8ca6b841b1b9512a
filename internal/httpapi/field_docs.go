package httpapi

// fieldDoc describes every field or parameter with a name, wherever it occurs. A doc or example tag on a field
// overrides it.
type fieldDoc struct {
	doc     string
	example string // JSON; may be empty
}

// fieldDocs describes the fields of the API by name, in related groups.
var fieldDocs = map[string]fieldDoc{
	// IDs. They are opaque.
	"company_id": {"ID of the company.", `"com_06gf58g6w1v5s708fp7tx3xdw0"`},
	"user_id": {
		"ID of the person (`usr_…`). In lists of payees, a recipient without a login is identified by its `rec_…` ID.",
		`"usr_06gf58g6w28xgvfnbjvbc8gg88"`,
	},
	"recipient_id":    {"ID of the recipient.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"relationship_id": {"ID of the link between the company and the recipient.", `"rel_06gf58g6w16389bj6g1srq4d38"`},
	"distribution_id": {"ID of the payment destination.", `"dst_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"payroll_id":      {"ID of the payroll.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"subpayroll_id":   {"ID of one payment of a payroll: the amount for one payee.", `"pmt_06gf58g6w2b01306dn9h8c6vcg"`},
	"payment_id":      {"ID of one payment of a payroll: the amount for one payee.", `"pmt_06gf58g6w2b01306dn9h8c6vcg"`},
	"output_id": {
		"ID of one output of a payment: the share that goes to one destination.",
		`"out_06gf58g6w3sm743akvrytz3w8m"`,
	},
	"quote_id":    {"ID of the quote.", `"quo_06gf58g6w2sp4kq83hxe3nh5pm"`},
	"deposit_id":  {"ID of the deposit: money received.", `"dep_06gf58g6w2kvkqtk50xh3s8knw"`},
	"claim_id":    {"ID of the merchant claim.", `"clm_06gf58g6w17gqvggteagdzt4pg"`},
	"invoice_id":  {"ID of the invoice.", `"inv_06gf58g6w2b0ta81jn2xqare0m"`},
	"income_id":   {"ID of the income: money that a user received.", `"inc_06gf58g6w0aychq170kks701q0"`},
	"transfer_id": {"ID of the incoming transfer.", `"trf_06gf58g6w0aychq170kks701q0"`},
	"withheld": {
		"Part of the amount that is not paid out because a reversed transfer reduced the balance first.", `0.00`,
	},
	"document_id": {"ID of the document.", `"doc_06gf58g6w0w5dpzz01n4wqzwfw"`},
	"external_company_id": {
		"ID of the payer (`pyr_…`): an external party who pays the user.",
		`"pyr_06gf58g6w1sd2bmncbk8f913rm"`,
	},
	"vendor_id": {"ID of the vendor, a recipient.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"payer_id": {
		"ID of the payer (`pyr_…`), or the merchant's own reference for its customer.",
		`"pyr_06gf58g6w1sd2bmncbk8f913rm"`,
	},
	"wallet_id":      {"ID of the company's wallet in one currency.", `"wal_06gf58g6w0aychq170kks701q0"`},
	"proposal_id":    {"ID of the proposal.", `"pps_06gf58g6w0aychq170kks701q0"`},
	"schedule_id":    {"ID of the schedule.", `"sch_06gf58g6w0aychq170kks701q0"`},
	"withdrawal_id":  {"ID of the withdrawal.", `"wdr_06gf58g6w0aychq170kks701q0"`},
	"mandate_id":     {"ID of the mandate for direct debits.", `"mdt_06gf58g6w0aychq170kks701q0"`},
	"debit_id":       {"ID of the direct debit.", `"ddb_06gf58g6w0aychq170kks701q0"`},
	"destination_id": {"ID of the withdrawal destination.", `"dst_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"transaction_id": {"ID of the transaction.", `"jrn_06gf58g6w23xf7hs63s9x5j7sc"`},
	"webhook_id":     {"ID of the webhook endpoint.", `"whk_06gf58g6w2messfavdnba8x1fm"`},
	"endpoint_id":    {"ID of the webhook endpoint.", `"whk_06gf58g6w2messfavdnba8x1fm"`},
	"event_id":       {"ID of the event, the same in every delivery of it.", `"evt_06gf58g6w2qkhv375vsd8b2pm4"`},
	"delivery_id":    {"ID of one delivery of an event to one endpoint.", `"dlv_06gf58g6w3294yb3vz4hvc9zng"`},
	"invitation_id":  {"ID of the invitation.", `"ivt_06gf58g6w100qc30sdjrkvr1n4"`},
	"ubo_id":         {"ID of the beneficial owner.", `"ubo_06gf58g6w35wxgp84a80mg25h8"`},
	"object_id":      {"ID of the payroll or payment whose state changed.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"client_id":      {"ID of the authentication app, as its settings show it.", `"cli_06gf58g6w1rrf1wfby3nckp71r"`},
	"id":             {"ID of the object.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"external_id":    {"Your own reference, unique per company; up to 255 characters.", `"run-2026-09"`},
	"external_payment_id": {"Your own reference of this payment, up to 255 characters. It is paid once: another payroll " +
		"can use it only after this one is cancelled.", `"run-2026-09/ada"`},
	"request_id": {
		"ID of this request, the same as in the header X-Request-Id and in the service's log.",
		`"req_5f1d0c6a9b3e4f7a8c2d1e0f9a8b7c6d"`,
	},

	// People and companies.
	"email":               {"Email address.", `"ada@example.com"`},
	"name":                {"Full name.", `"Ada Lovelace"`},
	"first_name":          {"Given name.", `"Ada"`},
	"last_name":           {"Family name.", `"Lovelace"`},
	"phone_number":        {"Telephone number: national, or international with +.", `"+442079460018"`},
	"phone_country":       {"Country of the telephone number: 2-letter ISO code.", `"GB"`},
	"date_of_birth":       {"Date of birth, YYYY-MM-DD.", `"1990-12-10"`},
	"street_address":      {"First line of the address.", `"12 St James's Square"`},
	"street_address_2":    {"Second line of the address.", `"Flat 3"`},
	"city":                {"Town or city.", `"London"`},
	"state":               {"State, province or region of the address.", `"England"`},
	"region":              {"State, province or region of the address.", `"England"`},
	"zip":                 {"Postal code.", `"SW1Y 4LB"`},
	"country":             {"Country: 2-letter ISO 3166-1 code in capitals.", `"GB"`},
	"countries":           {"Countries: 2-letter ISO 3166-1 codes in capitals.", `["GB","US"]`},
	"role":                {"Role of the recipient.", `"contractor"`},
	"department":          {"Your own name of the department.", `"Engineering"`},
	"vendor_type":         {"Your own vendor category; empty for workers.", `""`},
	"recipient_type":      {"Whether the recipient is a person (user) or a company.", `"user"`},
	"created":             {"When it was created, UTC.", ``},
	"created_at":          {"When it was created, UTC.", ``},
	"updated":             {"When it last changed, UTC.", ``},
	"updated_at":          {"When it last changed, UTC.", ``},
	"onboarding_complete": {"Whether the worker has finished signing up.", `true`},
	"has_distributions":   {"Whether the worker has a payment destination and so can be paid.", `true`},
	"website":             {"Web address.", `"https://example.com"`},
	"is_company":          {"Whether the user's payer is the company, which pays the invoices by its payrolls.", "true"},
	"company_type":        {"Relation of the payer to the user: employer or client.", `"employer"`},
	"occupation":          {"The user's occupation.", `"Engineer"`},
	"product":             {"Product that the user signs up for.", `"worker"`},
	"kyb_status":          {"State of the company's verification.", `"approved"`},
	"kyc_status":          {"State of the person's verification.", `"approved"`},
	"title":               {"Short title.", `"Not found"`},

	// Documents.
	"doc_type":        {"Type of document; `tax_id` for a tax ID.", `"passport"`},
	"category":        {"Category; see the operation.", `"front"`},
	"issuing_country": {"Country that issued the document: 2-letter ISO code in capitals.", `"GB"`},
	"base64_image": {
		"The image, JPEG or PNG, in base64; at most 10 MiB decoded and 40 megapixels.",
		`"iVBORw0KGgo="`,
	},
	"tax_id":      {"The tax ID.", `"AB123456C"`},
	"tax_id_type": {"Type of tax ID, from the list of document types.", `"nino"`},
	"certified": {
		"Whether the user certifies, under penalty of perjury, that the data of the form is correct.", `true`,
	},
	"form":            {"The tax form: `w9` of a US person, `w8ben` of anyone else; empty if there is none.", `"w9"`},
	"classification":  {"Federal tax classification of a W-9, such as individual or llc.", `"individual"`},
	"business_name":   {"Business name of a W-9, if it differs from the name.", `"Byron Software"`},
	"signed":          {"When the form was certified; absent if there is none.", `"2026-01-15T09:30:00.000Z"`},
	"tax_form":        {"The payee's newest tax form; empty if there is none.", `"w9"`},
	"tax_form_status": {"State of the payee's newest tax form.", `"valid"`},
	"tax_id_on_file":  {"Whether a valid tax form of the payee has a tax ID.", `true`},
	"last_day":        {"Last day on which the form is valid; empty for no limit.", `"2029-12-31"`},
	"year":            {"Calendar year, UTC. Default: the present one.", `2026`},
	"totals":          {"Sums, one for each currency.", ``},
	"value_usd":       {"Value in USD when it was paid.", `1250.00`},
	"value_eur":       {"Value in EUR when it was paid.", `1150.00`},
	"unvalued_payments": {
		"Number of payments missing from the values because no price at their time is known.", `0`,
	},
	"tax_id_types":              {"The accepted types of tax ID; empty if none is required.", `["nino"]`},
	"requires_backside":         {"Whether the back side must be uploaded too.", `false`},
	"requires_selfie":           {"Whether a selfie is required.", `false`},
	"requires_proof_of_address": {"Whether a proof of address is required.", `false`},
	"doc_types":                 {"The required document types.", ``},
	"documents":                 {"The documents, including the tax ID.", ``},

	// Money.
	"currency": {"Currency: its code, one of GET /api/currencies.", `"USD"`},
	"symbol":   {"Currency: its code, one of GET /api/currencies.", `"BTC"`},
	"amount": {
		"Amount, in whole units of its currency (12.50 is twelve and a half), with at most the currency's decimals.",
		`12.50`,
	},
	"amount_fiat": {
		"Amount for the payee, in whole units of the payroll's `currency` (1250.50 USD), with at most the currency's " +
			"decimals; greater than 0. If `receive_amount` is given in its place, it is what that costs.",
		`1250.50`,
	},
	"receive_amount": {
		"What the payee receives exactly, in `receive_currency`, in place of `amount_fiat`: the service computes what it " +
			"costs at the present price, rounded up, and again when an expired quote is replaced. In another currency " +
			"than the payroll's, not with a pay date or bank funding; never for an invoice. 0 or absent if `amount_fiat` " +
			"is fixed.",
		`0`,
	},
	"receive_currency": {
		"Currency of `receive_amount`, which all destinations of the payee take: a coin or a fiat currency. Empty or " +
			"absent without it.", `"EUR"`,
	},
	"fees":                             {"Fees, in the payroll's currency.", `12.51`},
	"volume_input_in_input_currency":   {"Sum of the payees' amounts without fees, in the payroll's currency.", `1250.50`},
	"volume_output_in_output_currency": {"Payout amount in the output's currency; 0 until it is known.", `0.02501000`},
	"total_input_in_input_currency": {
		"Total that the company pays: volume plus fees, in the payroll's currency.",
		`1263.01`,
	},
	"funding_method": {
		"Funding method: `crypto` by a quote, `bank` by a transfer, `direct_debit` of the company's bank account, " +
			"`wallet` from the company's balance, or the ID of one wallet.",
		`"crypto"`,
	},
	"funding_currency":         {"Currency of the funding payment.", `"BTC"`},
	"funding_network":          {"Network of the funding payment.", `"base"`},
	"funding_networks":         {"EVM networks on which a payroll can be funded in the currency.", `["base"]`},
	"funding_amount":           {"Amount to pay in the funding currency.", `0.02526020`},
	"funded_amount":            {"Confirmed amount received, in the funding currency.", `0`},
	"funding_details":          {"Where to pay.", ``},
	"funding_state":            {"State of the funding.", `"none"`},
	"denomination_currency":    {"Currency of the price.", `"EUR"`},
	"denomination_amount":      {"The price, in the denomination currency.", `"120.00"`},
	"input_currency":           {"Currency of the payroll.", `"USD"`},
	"output_currency":          {"Currency that the destination receives.", `"BTC"`},
	"payroll_invoice_currency": {"Currency of the payer's invoices.", `"EUR"`},
	"payment_amount":           {"Payment by the employer, in the payer's currency.", `2500`},
	"rate": {
		"Price of one whole unit of the first currency in the other; for a quote, one unit of the funding currency " +
			"in the payroll's currency.",
		`50000.00`,
	},
	"base":          {"Currency whose unit is priced.", `"BTC"`},
	"minimum":       {"The smallest amount that can be written in the currency.", `0.01`},
	"decimals":      {"Maximum decimals of amounts in the currency.", `2`},
	"network":       {"Network of the address.", `"bitcoin"`},
	"networks":      {"Networks on which the currency can be sent.", `["bitcoin"]`},
	"address":       {"Address on the network.", `"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"`},
	"tag":           {"Destination tag (XRP); may be empty.", `""`},
	"transfer_memo": {"Memo (XLM); may be empty.", `""`},
	"tx_hash": {
		"ID of the transaction on the chain; empty until there is one.",
		`"4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"`,
	},
	"payment_preimage": {
		"Proof of a payment over Lightning: its SHA-256 is the payment hash in `tx_hash`. Empty for other payments.", `""`,
	},
	"confirmations":          {"Number of confirmations.", `2`},
	"in_time":                {"Whether it was first seen before its quote expired.", `true`},
	"confirmations_required": {"Required confirmations.", `1`},
	"exception":              {"Exception of the payment.", `"none"`},
	"reverted":               {"Whether a chain reorganization reversed the payment.", `false`},
	"refund_id":              {"ID of the refund.", `"ref_06gf58g6w17gqvggteagdzt4pm"`},
	"settlement_id":          {"ID of the settlement.", `"stl_06gf58g6w17gqvggteagdzt4pr"`},
	"refund_url": {
		"Page where the payer enters an address.",
		`"https://pay.example.com/pay/clm_06gf58g6w17gqvggteagdzt4pg/refund/4f1c"`,
	},
	"claims": {"Proceeds of merchant claims that are not settled yet.", `0`},
	"checkout_url": {
		"Page where the payer pays.",
		`"https://pay.example.com/pay/clm_06gf58g6w17gqvggteagdzt4pg"`,
	},
	"x402_url": {
		"Address at which programs pay by x402; empty if they cannot.",
		`"https://pay.example.com/api/x402/clm_06gf58g6w17gqvggteagdzt4pg"`,
	},
	"PAYMENT-SIGNATURE": {
		"The payment as x402 defines it: JSON in base64. Clients of x402 create it from the terms of a 402.", "",
	},
	"return_url": {"URL to which the checkout returns.", `"https://shop.example/orders/17"`},
	"payment_options": {
		"Ways to pay the amount still due, each with its own quote; empty if nothing can be paid now. The first currency " +
			"that pays in full ends the others.", ``,
	},
	"other_refundable": {
		"Amounts owed to the payer in currencies other than `funding_currency`.", ``,
	},
	"lightning_invoice": {
		"BOLT 11 payment request for the funding amount, valid as long as the quote; empty if Lightning is not " +
			"offered, the invoice is not ready, or a payment for the quote was received.",
		`""`,
	},
	"payment_uri": {
		"Payment URI of the quote (BIP 321 or EIP-681), including the Lightning invoice if there is one; empty once a " +
			"payment was received or the quote expired.",
		`"bitcoin:bcrt1q9qyqszqgpqyqszqgpqyqszqgpqyqszqgcn2xzm?amount=0.00240000"`,
	},
	"due_amount": {
		"Amount of the claim not covered by payments seen in time, in the denomination currency, as decimal text.",
		`"0.00"`,
	},
	"seen_amount": {
		"Amount received, confirmed or not, in the funding currency, as decimal text.",
		`"0.00240000"`,
	},
	"received_amount": {
		"Confirmed amount received, in the funding currency, as decimal text.",
		`"0.00240000"`,
	},
	"refundable_amount": {
		"Amount payable to the payer, overpaid or refunded, in the funding currency, as decimal text.",
		`"0.00000000"`,
	},
	"refunded_amount": {
		"Amount already refunded, in the funding currency, as decimal text.",
		`"0.00000000"`,
	},
	"tx_hashes":     {"All transactions that pay it, by the time they were first seen.", ``},
	"tolerance_bps": {"Underpayment that still counts as paid, in hundredths of a percent.", `50`},
	"late_policy": {
		"Handling of late payments: manual waits for the merchant; below 1,000 USD, requote accepts them at the " +
			"current rate and refund returns them.",
		`"manual"`,
	},
	"late_grace_seconds":        {"Seconds after its expiry for which a quote still applies.", `0`},
	"settlement_currency":       {"Currency that the merchant receives.", `"BTC"`},
	"settlement_schedule":       {"Schedule of automatic settlements.", `"manual"`},
	"support_email":             {"Support address for payers.", `"help@shop.example"`},
	"settlement_convert_to":     {"Bank currency into which settlements are exchanged; empty for none.", `""`},
	"settlement_day":            {"Day of weekly settlements.", `"monday"`},
	"settlement_time_zone":      {"Time zone of the schedule, as in the IANA database.", `"UTC"`},
	"opening_amount":            {"Earned but not settled by the previous settlement, as decimal text.", `"0.00000000"`},
	"claims_amount":             {"What claims brought before fees, as decimal text.", `"0.00200000"`},
	"fees_amount":               {"Fees of the claims, as decimal text.", `"0.00002000"`},
	"refunds_amount":            {"Refunds of paid claims, as decimal text.", `"0.00000000"`},
	"closing_amount":            {"Earned and not settled after the settlement, as decimal text.", `"0.00000000"`},
	"gross_amount":              {"Amount before the fee, as decimal text; negative for money that left.", `"0.00200000"`},
	"fee_amount":                {"The fee, as decimal text.", `"0.00002000"`},
	"net_amount":                {"Amount after the fee, as decimal text; negative for money that left.", `"0.00198000"`},
	"settlement_destination_id": {"Destination to which settlements are withdrawn.", `""`},
	"payment_link_id": {
		"ID of the payment link; empty or absent if there is none.", `"plk_06gf58g6w0aychq170kks701q0"`,
	},
	"max_payments": {"Number of payments after which the link ends; 0 for no limit.", `100`},
	"ends_at":      {"When the link ends, UTC.", ``},
	"frequency": {"How often a payroll is created; `biweekly` is every second week, `semimonthly` twice a month.",
		``},
	"metadata": {"Your own data: up to 50 keys of up to 40 characters, with string values of up to 500.",
		`{"cost_center":"42"}`},
	"run_id":            {"ID of the run; empty while it is planned and unchanged.", ``},
	"scheme":            {"Scheme of the direct debits.", ``},
	"suggested_amounts": {"Amounts that the page suggests.", ``},
	"active":            {"Whether the link takes payments.", `true`},
	"display_name":      {"Name that payers see; empty for the company's name.", `"Corner Books"`},
	"accent_color": {
		"Color of buttons and links, as # and six hexadecimal digits; empty for the service's color.", `"#1d3f8f"`,
	},
	"headline":  {"Text that the checkout shows below the name; may be empty.", `"Your order at Corner Books"`},
	"thank_you": {"Text after the payment and in the receipt; may be empty.", `"We pack it today."`},
	"languages": {
		"Languages offered to payers: en, es, pt, fr, de, he. The first is the default. Empty for all.", `["en","fr"]`,
	},
	"logo_url": {"URL of the logo as a PNG; empty if there is none.", `""`},
	"redirect_url": {
		"Like `return_url`, but the checkout page redirects to it once the claim is paid. Send only one of the two.",
		`"https://shop.example/orders/17"`,
	},
	"notification_email": {
		"Email address of the payer, who gets a receipt there when the claim is paid.", `"payer@example.com"`,
	},
	"line_items": {
		"What the payer pays for, shown at the checkout. Their amounts add up to the claim's amount.", ``,
	},
	"origins": {
		"Origins that may embed the checkout and to which it may return: https:// and a host.",
		`["https://shop.example"]`,
	},
	"first_seen": {"When it was first seen, UTC.", ``},
	"balance":    {"Available balance in whole units of its currency.", `250.00`},
	"is_premium": {
		"Whether the premium fee of the company's contract applies instead of the standard fee.",
		`false`,
	},
	"payees":      {"Number of payees.", `2`},
	"description": {"Free text for people.", `"September"`},

	// Invoices.
	"number":     {"Invoice number.", `"2026-0017"`},
	"items":      {"The lines of the invoice.", ``},
	"notes":      {"Notes at the end of the invoice; may have several lines.", `"Thank you."`},
	"quantity":   {"Number of units.", `8`},
	"unit_price": {"Price of one unit, in whole units of the invoice's currency.", `95.00`},
	"tax_rate":   {"Tax on the line, in percent.", `20`},
	"subtotal":   {"Sum of the lines without tax, in whole units of the invoice's currency.", `760.00`},
	"tax":        {"Tax, in whole units of the invoice's currency.", `152.00`},
	"paid":       {"Amount paid, in whole units of the invoice's currency.", `0.00`},
	"amount_due": {"Amount still due, in whole units of the invoice's currency.", `912.00`},
	"issue_date": {"Issue date, YYYY-MM-DD.", `"2026-09-30"`},
	"due_date":   {"Due date, YYYY-MM-DD.", `"2026-10-30"`},

	// Destinations: required fields and history.
	"key":           {"Name of the field of `distribution_data`.", `"iban"`},
	"label":         {"Label in a form.", `"IBAN"`},
	"value":         {"The value.", `"checking"`},
	"required":      {"Whether it is required.", `true`},
	"min_length":    {"Minimum length.", `15`},
	"max_length":    {"Maximum length.", `34`},
	"pattern":       {"Regular expression for the whole text; empty if any text is valid.", `"^[A-Z0-9]+$"`},
	"example":       {"Example value.", `"DE89370400440532013000"`},
	"options":       {"The values to choose from.", ``},
	"rail":          {"Payout rail.", `"sepa"`},
	"field":         {"Name of the field that this one depends on.", `"account_type"`},
	"change_id":     {"ID of the change.", `"chg_06gf58g6w3vwannghmvpxav48w"`},
	"action":        {"Action.", `"created"`},
	"credential_id": {"ID of the credential that made the change.", `"key_06gf58g6w2m6f5zq3astchg954"`},
	"dry_run":       {"Whether this was only a validation.", `false`},
	"existing":      {"Rows that already exist.", `0`},
	"failed":        {"Invalid rows.", `0`},
	"results":       {"Result of each row, in order.", ``},
	"column":        {"Column of the file.", `"country"`},

	// Events and their deliveries.
	"event":       {"Name of the event.", `"payroll.created"`},
	"environment": {"sandbox or production.", `"sandbox"`},
	"api_version": {"API version of the event.", `"2.0"`},
	"attempts":    {"Number of attempts.", `1`},
	"has_more":    {"Whether more follow.", `false`},
	"headers":     {"The headers, by name.", ``},
	"method":      {"The HTTP method.", `"POST"`},
	"took_ms":     {"Duration in milliseconds.", `85`},
	"url":         {"The address.", `"https://example.com/hooks"`},

	// Verification.
	"result":               {"Result of the verification.", ``},
	"kyb_state":            {"State of the company's verification.", `"approved"`},
	"ownership_percentage": {"Share of the company that the person owns, in percent.", `60`},
	"control_person":       {"Whether the person controls the company.", `true`},
	"bytes":                {"Size, in bytes.", `48213`},

	// Bank accounts.
	"funding_account_id":  {"ID of the funding account.", `"fac_06gf58g6w2y1gp9sf76hca02rw"`},
	"accounts":            {"The funding accounts.", ``},
	"account_holder_name": {"Name in which the account is held.", `"Ada Lovelace"`},
	"account_number":      {"Account number; empty if there is an IBAN.", `"000123456789"`},
	"routing_number":      {"Routing number of the bank; empty if there is an IBAN.", `"021000021"`},
	"iban":                {"IBAN; may be empty.", `"DE89370400440532013000"`},
	"bic":                 {"BIC of the bank; may be empty.", `"COBADEFF"`},
	"bank_name":           {"Name of the bank.", `"Example Bank"`},
	"terms_url":           {"URL of the bank's terms.", `"https://example.com/terms"`},
	"accepted_version":    {"Accepted version of the terms; may be empty.", `"2026-01"`},
	"version":             {"Version of the text.", `"2026-01"`},

	// OAuth.
	"access_token":      {"The token; send it as Bearer.", `"stp_sandbox_tok_…"`},
	"token":             {"The token to revoke.", `"stp_sandbox_tok_…"`},
	"token_type":        {"Token type.", `"Bearer"`},
	"grant_type":        {"Grant type.", `"authorization_code"`},
	"error":             {"Error code of RFC 6749.", `"invalid_grant"`},
	"error_description": {"Explanation of the error, for people.", `"The code is unknown, used or expired."`},

	"issuer":                           {"The authorization server (RFC 8414).", `"https://auth.example.com"`},
	"authorization_endpoint":           {"Authorization endpoint (RFC 8414).", `"https://auth.example.com/authorize"`},
	"token_endpoint":                   {"Token endpoint (RFC 8414).", `"https://api.example.com/oauth2/token"`},
	"revocation_endpoint":              {"Revocation endpoint (RFC 8414).", `"https://api.example.com/oauth2/revoke"`},
	"service_documentation":            {"Documentation (RFC 8414).", `"https://api.example.com/docs"`},
	"scopes_supported":                 {"The scopes (RFC 8414).", `["c_company_detail"]`},
	"response_types_supported":         {"The response types (RFC 8414).", `["code"]`},
	"response_modes_supported":         {"The response modes (RFC 8414).", `["query"]`},
	"grant_types_supported":            {"The grant types (RFC 8414).", `["authorization_code"]`},
	"code_challenge_methods_supported": {"The methods of PKCE (RFC 8414).", `["S256"]`},

	"token_endpoint_auth_methods_supported": {
		"Client authentication methods of the token endpoint (RFC 8414).",
		`["client_secret_basic"]`,
	},
	"revocation_endpoint_auth_methods_supported": {
		"Client authentication methods of the revocation endpoint (RFC 8414).",
		`["client_secret_basic"]`,
	},
	"authorization_response_iss_parameter_supported": {
		"Whether authorization responses contain the issuer (RFC 9207).",
		`true`,
	},

	// Lists.
	"data": {"The items of this page.", ``},
	"meta": {"Position of the page in the list.", ``},
	"page": {"Number of the page, from 1.", `1`},
	"next_cursor": {"The cursor of the next page; empty on the last page, and for statements. A page that is read by " +
		"cursor can be full and the last one: then the next page is empty.", `"pay_0000000000t3stp1ate9x"`},
	"per_page":    {"Items per page: default 20, at most 100; larger values mean 100.", `20`},
	"total":       {"Number of items on all pages.", `45`},
	"pages":       {"Number of pages.", `3`},
	"has_prev":    {"Whether there is a previous page.", `false`},
	"has_next":    {"Whether there is a next page.", `true`},
	"prev_num":    {"Number of the previous page; 0 on the first.", `0`},
	"next_num":    {"Number of the next page; 0 on the last.", `2`},
	"search":      {"Part of a name or email address; case-insensitive.", `"ada"`},
	"sort_by":     {"Sort field.", `"name"`},
	"sort_by_dir": {"Sort direction.", `"asc"`},
	"from":        {"Created at this time or later: RFC 3339, or a date for its start in UTC.", `"2026-09-01T00:00:00Z"`},
	"to":          {"Created before this time: RFC 3339, or a date for its start in UTC.", `"2026-10-01T00:00:00Z"`},

	// States and time.
	"status":     {"State of the object.", `"active"`},
	"reason":     {"Reason for the state; may be empty.", `""`},
	"valid_from": {"Start of the quote's validity, UTC.", ``},
	"valid_to":   {"Expiry of the price, UTC.", ``},
	"at":         {"When it happened, UTC.", ``},
	"received":   {"Whether it was funded.", `true`},
	"released":   {"Whether it was released.", `false`},
	"fulfilled":  {"Whether it was paid in full.", `false`},
	"success":    {"true if the request succeeded.", `true`},
	"deleted":    {"true if it was deleted.", `true`},

	"idempotency_replayed": {
		"Whether this is the stored response of an earlier request with the same Idempotency-Key.",
		`false`,
	},

	// Parts of a payroll.
	"to_pay":           {"1 to 10,000 payees with their amounts.", ``},
	"quote":            {"The firm price in the funding currency, for funding by crypto.", ``},
	"quotes":           {"The active quotes.", ``},
	"payments":         {"The payments, one for each payee.", ``},
	"outputs":          {"Payouts to each destination of the payee.", ``},
	"deposits":         {"Deposits received.", ``},
	"approval":         {"State of its approval by members.", ``},
	"hold_reason":      {"Reason for the hold; may be empty.", `""`},
	"approvals_needed": {"Required approvals.", `0`},
	"needed":           {"Required approvals.", `1`},
	"given":            {"Approvals given.", `0`},
	"timeline":         {"History, oldest first.", ``},
	"blockers":         {"Reasons why creation would be rejected; empty if none.", ``},
	"companies":        {"The companies.", ``},

	// Messages and notes.
	"mail_id":     {"ID of the message.", `"mail_06gf58g6w0gq4psw5rnxh0grpc"`},
	"subject":     {"Subject line.", `"You are invited"`},
	"template":    {"Template of the message.", `"invitation"`},
	"text":        {"The message as plain text.", `"Hello"`},
	"html":        {"The message as HTML.", `"<p>Hello</p>"`},
	"sent_at":     {"When it was sent, UTC.", ``},
	"expires_at":  {"When it expires, UTC.", ``},
	"source_id":   {"ID of the object that caused the transaction.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"source_type": {"Type of the object that caused the transaction.", `"payroll"`},

	// Reference.
	"currencies":  {"The currencies.", ``},
	"rates":       {"The prices.", ``},
	"observed_at": {"When the price was observed, UTC.", ``},
	"payers":      {"The payers.", ``},
	"invoices":    {"The invoices.", ``},
	"wallets":     {"The wallets, one for each currency.", ``},
	"webhooks":    {"The webhook endpoints.", ``},
	"events":      {"The events, oldest first.", ``},
	"deliveries":  {"The deliveries, newest first.", ``},
	"invitations": {"The invitations.", ``},

	// Destinations.
	"distributions":     {"The payment destinations.", ``},
	"distribution_type": {"Whether the destination is crypto or fiat (a bank account).", `"crypto"`},
	"distribution_data": {
		"Details of the destination: the fields that GET /api/user/distribution/fields lists for the currency and " +
			"country; for crypto `address`, and `network` where the currency has several. For BTC, `descriptor` can take the " +
			"place of `address`: an extended public key (xpub or zpub of an account, with P2WPKH addresses) or an output " +
			"descriptor, from which each payment gets a new address. It is stored encrypted; private keys are refused. Where " +
			"the service pays over Lightning, `lightning_address` or `lightning_invoice` can: an address whose server gives " +
			"an invoice for each payment (LUD-16), or one BOLT 11 invoice, which is paid once and has no amount or exactly " +
			"that of the payment.",
		`{"address":"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"}`,
	},
	"allocation": {
		"Share of each payment that goes to this destination, in whole percent of what the fixed amounts leave; a payee's " +
			"allocations total 100. It is 0 for a destination with a fixed amount.",
		`100`,
	},
	"fixed_amount": {
		"Amount of each payment that goes to this destination before the allocations divide the rest; 0 for none. It " +
			"applies to payments in `fixed_currency`. Fixed amounts are paid in the order in which the destinations were " +
			"created. One that is larger than what is left of the payment gets all that is left.",
		`0`,
	},
	"fixed_currency": {"Currency of the fixed amount, or empty.", `""`},
	"allocations": {
		"1 to 3 destinations, each with `allocation`, `fixed_amount` or `remainder`. The allocations, with the remainder, " +
			"total 100. A destination that is not listed gets 0.", ``,
	},
	"payable": {
		"Whether this service pays to such a destination. It is false if the operator removed the network after the " +
			"destination was created; a payroll whose payee allocates a share to it is rejected with `currency_not_supported`.",
		`true`,
	},
	"correction_id":   {"ID of the correction that the bank requested.", `"cor_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"required_fields": {"The fields of `distribution_data`, in the order of a form.", `[]`},

	// Errors.
	"type": {"Type of the object.", ``},
	"code": {"Error code for programs.", `"not_found"`},
	"detail": {
		"Explanation of the error, for people.",
		`"The object does not exist, or the credential has no access to it."`,
	},
	"message": {"Explanation of the problem and the expected value, for people.", `"The field country is required."`},
	"pointer": {"Place: a JSON pointer into the body, or the name of a parameter or header.", `"/country"`},
	"in":      {"Part of the request that the pointer refers to.", `"body"`},
	"errors": {
		"All problems of the request, in order, at most 100. `code` and `detail` repeat the first. Empty if no " +
			"particular field is wrong.",
		``,
	},

	// The sandbox.
	"kind":                   {"Type of the object.", ``},
	"sat_per_vbyte":          {"Fee rate of the chain, in satoshis per virtual byte.", `200`},
	"previous_sat_per_vbyte": {"Previous fee rate.", `2`},
	"advance_seconds":        {"Seconds to advance the service's clock.", `60`},
	"now":                    {"The service's time now, UTC.", ``},
}

// typeFieldDocs describes fields and parameters of single types, by type and name. They override fieldDocs.
var typeFieldDocs = map[string]map[string]string{
	"bankDepositBody": {
		"reference": "Reference of the bank. A repeated reference is the same transfer.",
	},
	"bankTransfer": {
		"reference": "Reference to use for the payment. It identifies the payroll.",
	},
	"ClaimCreateBody": {
		"amount": "Amount due in the denomination currency, with at most its decimals; greater than 0.",
		"funding_currency": "Currency in which the payer pays: `BTC` (default), `USDC`, `USDT`, or `any` for all of them " +
			"that the service can receive; see `payment_options`.",
		"description": "Description of the purchase, shown at the checkout.",
		"return_url":  "URL to which the checkout returns; must have one of the origins in the merchant settings.",
		"external_id": "Your order number, unique per company; up to 255 characters.",
		"expires_in": "Number of seconds after which the payer can no longer get a quote. Default: no limit. A " +
			"quote never outlasts the claim.",
	},
	"claimPayment": {
		"method": "Network of the payment, or `lightning`.",
	},
	"lineItemBody": {
		"description": "Description of the line item.",
		"quantity":    "Number of pieces. Default: 1.",
		"amount":      "Total of the line in the denomination currency; negative for a discount.",
	},
	"lineItem": {
		"description": "Description of the line item.",
		"amount":      "Total of the line in the denomination currency, as decimal text; negative for a discount.",
	},
	"ClaimFilter": {
		"search":              "Beginning of an external_id, payer_id or claim_id; letter case does not matter.",
		"denomination_amount": "Exact amount of the claims, such as 120.00. It needs `denomination_currency`.",
	},
	"claimRefundBody": {
		"amount": "Part of a paid claim to refund. Default: the payer's own money, such as an overpayment.",
		"currency": "Currency of `amount`: the claim's denomination currency, which is the default, or its funding " +
			"currency.",
		"rate": "How an amount in the denomination currency becomes coins: at the current rate, which is the default, " +
			"or as the part of the coins that were paid.",
		"source": "Where the money comes from: `claims` is what claims earned and is not settled, `balance` the " +
			"available balance. Default: claims first, then the balance.",
	},
	"ClaimRefund": {
		"amount": "Amount to refund, as decimal text; the network fee is deducted from it.",
		"denomination_amount": "Part of the claim's amount that is refunded, as decimal text. Absent for money that " +
			"already belonged to the payer.",
		"cost_amount": "What the refund costs the merchant, as decimal text. Absent for money that already belonged to the " +
			"payer's.",
		"cost_currency": "Currency of `cost_amount`.",
		"tx_hash":       "Transaction that pays the refund; may be empty.",
	},
	"ClaimSummary": {
		"expires_at": "Time from which the payer can no longer get a quote, UTC; absent if there is none.",
		"tx_hash": "Transaction that completed the payment, or the payment hash over Lightning; before that the " +
			"latest one, or empty.",
	},
	"companyDetail": {
		"kyb_state": "Detailed state of the verification; empty until the company submits its details.",
		"ubos":      "Beneficial owners and control persons; empty unless the credential is an API key of the company.",
	},
	"companyUploadBody": {
		"doc_type": "Type of document. For the company: certificate_of_incorporation, articles_of_association, " +
			"shareholder_register, proof_of_address, bank_statement, tax_certificate, other or tax_id. For an owner: as " +
			"for a user.",
		"base64_image": "The image in base64: one JPEG or PNG of at most 10 MiB and 40 megapixels, with at least 600 " +
			"pixels on the shorter side (in the sandbox, any size).",
	},
	"companyVerification": {
		"kyb_state": "Detailed state of the verification; empty until the company submits its details.",
	},
	"correction": {
		"distribution_data": "Details of the destination as corrected, with bank data masked.",
	},
	"currencyItem": {
		"countries": "Countries of payees who can have a bank destination in the currency. Empty for a crypto " +
			"currency, which is available in every country.",
	},
	"DeliveryItem": {
		"error": "Cause of the last failure; empty if there was none.",
	},
	"deliveryList": {
		"name": "Event names, or prefixes such as `payroll.*`, separated by commas.",
	},
	"deliveryTry": {
		"error": "Cause of the failure; empty if the attempt succeeded.",
	},
	"destinationChange": {
		"before": "The destination before the change, with bank data masked; absent if the change created it.",
		"after":  "The destination after the change, with bank data masked; absent if the change deleted it.",
	},
	"DestinationDetails": {
		"correction": "Correction that the bank of the account requested; absent if there is none.",
		"account_check": "Newest check of the bank account, by Verification of Payee or a prenote. Absent before the " +
			"first result, and for accounts that cannot be checked.",
	},
	"documentType": {
		"doc_type": "Type of document, for `doc_type` of an upload. One identity document is sufficient.",
		"tax_id_types": "Types of tax ID of the user's country. One is required if the list of document types " +
			"contains `tax_id`.",
	},
	"documentTypesInput": {
		"external_company_id": "ID of the payer whose currency to consider. Default: all payers of the user.",
	},
	"eventList": {
		"name":  "Event names, or prefixes such as `payroll.*`, separated by commas.",
		"after": "ID of the last event received. The response continues after it, in the requested order.",
	},
	"fundingAccount": {
		"reason": "Reason for a suspension or closure; empty otherwise.",
	},
	"fundingOpenBody": {
		"user_id": "ID of the owner. With an API key: a user that the company created; if absent, the company is the " +
			"owner.",
		"terms_version": "Version of the terms to accept, from GET /api/user/funding/account/tos.",
	},
	"importedRow": {
		"status": "Result of the row. `existing`: a recipient with this external_id exists, so the row was skipped.",
	},
	"IncomeSummary": {
		"reason":              "Reason for waiting or for the outcome; may be empty.",
		"amount":              "Amount received: `withheld`, `fees` and the inputs of the outputs add up to it.",
		"fees":                "The operator's fee, in the income's currency; 0 before the payout.",
		"invoice_id":          "ID of the invoice that the transfer pays; empty if there is none.",
		"external_company_id": "ID of the payer who sent it; empty if unknown.",
	},
	"invitationItem": {
		"reason": "Reason for a revocation: revoked by the company, or declined by the person; empty otherwise.",
	},
	"invoiceCreateBody": {
		"number":   "Invoice number, unique per user. Default: the next free number.",
		"currency": "Currency of the invoice. It must be the payer's `payroll_invoice_currency`, which is the default.",
		"due_date": "Due date, YYYY-MM-DD. Default: 30 days after the issue date.",
		"draft":    "Whether to create a draft, which cannot be paid until it is sent.",
	},
	"invoiceList": {
		"status": "State of the invoices. Default: all except void.",
	},
	"kycInitiated": {
		"user_id": "ID of the user. In the sandbox, decide the verification at /sandbox/verifications/{user_id}.",
	},
	"merchantSettingsBody": {
		"confirmations": "Confirmations that a payment requires: 0, 1, 2 or 6. With 0, claims above 100 USD require 1.",
		"origins": "Replaces all origins that may embed the checkout and to which it may return: https:// and a host. An " +
			"empty array removes them; without this field they remain.",
		"settlement_currency": "Currency that the merchant receives: empty for the currency of each claim; `coin` for the " +
			"coin in which each claim is paid; `BTC`, `USDC` or `USDT` for payments in that coin; others arrive in the " +
			"currency of the claim.",
		"settlement_destination_id": "ID of the withdrawal destination to which settlements in its currency are " +
			"sent; empty to leave them in the balance.",
		"settlement_convert_to": "Bank currency into which settlements are exchanged, such as EUR; empty to keep what " +
			"claims earned.",
		"settlement_day":       "Day of weekly settlements.",
		"settlement_schedule":  "Schedule of automatic settlements, at midnight in settlement_time_zone.",
		"settlement_time_zone": "Time zone of the schedule: a name of the IANA database, such as Europe/Paris.",
		"support_email":        "Support address shown at the checkout; may be empty.",
	},
	"merchantBrandingBody": {
		"logo": "Logo as a PNG, JPEG or WebP in base64, of at most 1 MiB and 2048 × 2048 pixels. It is encoded again as a " +
			"PNG of at most 256 pixels per side and 16 KiB. Empty to remove it.",
	},
	"linkCreateBody": {
		"title": "What payers pay for.",
		"funding_currency": "Currency in which payers pay: `BTC` (default), `USDC`, `USDT`, or `any` for all of them " +
			"that the service can receive.",
	},
	"linkChangeBody": {
		"title": "What payers pay for.",
		"redirect_url": "URL to which the checkout of later claims redirects once the claim is paid; must have one of the " +
			"origins in the merchant settings. Empty for none.",
	},
	"PaymentLink": {"title": "What payers pay for."},
	"oauthTokenBody": {
		"code_verifier": "PKCE code verifier. Required if the authorization request had a code_challenge.",
	},
	"onboardBody": {
		"lei": "Legal entity identifier (ISO 17442) of the company, with valid check digits. Bank transfers in ISO 20022 " +
			"files name the paying company by it, too.",
		"registration_number": "Registration number of the company. Required before the verification starts, as are " +
			"incorporation_date, street_address and city.",
	},
	"ownerBody": {
		"ownership_percentage": "Share of the company that the person owns, in percent: 0 to 100, with at most 2 " +
			"decimals. An owner of 25 or more must be verified.",
		"control_person": "Whether the person controls the company. A control person must be verified regardless of " +
			"their share.",
	},
	"payerCreateBody": {
		"user_id": "ID of the owner. With an API key: a user that the company created; if absent, the company is the " +
			"owner.",
		"website":        "URL of the payer's website. Stored but never fetched.",
		"street_address": "First line of the address. Address fields are for a client.",
		"is_company": "Whether the payer of the user is the company of the API key. The company lists the invoices to such " +
			"a payer and pays them by its payrolls; it does not list or pay invoices to other payers.",
	},
	"paymentDetail": {
		"destination_changed": "When the payee's destination changed since their last payment, UTC. Absent if it did " +
			"not change within the last 30 days, or once this payment is sent.",
		"warnings": "What approvers should check before the payment is sent: a first payment, a changed destination, an " +
			"amount over one and a half times the largest of the last 12, several payments within seven days, or a bank " +
			"account that has not passed its check. Warnings " +
			"stop nothing. Empty once the payment is sent.",
	},
	"payoutOutput": {
		"rate_base": "Base currency of `rate`, one of the two currencies; empty if nothing was exchanged.",
		"rate": "Exchange rate at the release: price of one whole unit of rate_base in the other currency. 0 if " +
			"nothing was exchanged or the payroll was funded at several rates.",
	},
	"PayrollCreateBody": {
		"funding_method": "Funding method: `crypto`, `bank`, `direct_debit`, `wallet`, or the ID of a wallet. Default: " +
			"the company's funding method.",
		"funding_network": "Network of the funding payment, if the currency has several: one of its " +
			"`funding_networks` in GET /api/currencies.",
		"external_id": "Your own reference of the payroll, unique per company.",
		"pay_date": "Day on which the payees are paid, at most 31 days ahead. Default: as soon as the payroll is funded. " +
			"If it is funded later, it is paid at once.",
		"time_zone": "Time zone of `pay_date`, by its IANA name. Default: `UTC`.",
		"working_day": "What to do if `pay_date` is not a working day: pay anyway (`none`), on the last working day " +
			"`before` it, or on the first one `after` it. Default: `none`.",
		"calendar": "Country whose public holidays are not working days, or `weekdays` for Monday to Friday without " +
			"holidays. Default: the company's country or, if its holidays are not known, `weekdays`.",
	},
	"EarningSummary": {
		"reference": "External ID of the payroll, or ID of the invoice that the income pays; may be empty.",
	},
	"emailChangeBody": {
		"new_email": "Address to sign in with, once the links that are mailed to both addresses were opened.",
	},
	"invoiceDetail": {
		"invoice_url": "Page on which the payer sees the invoice and where to pay it. Anyone with the link can open it.",
	},
	"payInvoicesBody": {
		"invoice_ids": "IDs of open invoices and bills, all in one currency.",
		"pay_date": "Day on which the payees are paid, at most 31 days ahead. Default: as soon as the payroll is funded. " +
			"If it is funded later, it is paid at once.",
		"time_zone":   "Time zone of `pay_date`, by its IANA name. Default: `UTC`.",
		"working_day": "What to do if `pay_date` is not a working day, as for POST /api/company/payroll/create.",
		"calendar":    "Country whose public holidays are not working days, as for POST /api/company/payroll/create.",
	},
	"payrollUpdateBody": {
		"to_pay":      "Payees and amounts, which replace all others. Default: they stay.",
		"external_id": "Your own reference of the payroll, unique per company. Default: it stays.",
		"document_ids": "Of a payroll that pays vendors against documents: IDs of the documents, one for each item of " +
			"to_pay in its order. Default: each payment keeps the document of the vendor's payment with the same invoice " +
			"number, or else another one of the vendor.",
	},
	"PayrollSummary": {
		"pay_date": "Day on which the payees are paid; empty if they are paid as soon as the payroll is funded.",
	},
	"scheduleTerms": {
		"name":       "Your name of the schedule.",
		"frequency":  "How often a payroll is created; `biweekly` is every second week, `semimonthly` twice a month.",
		"start_date": "First possible day of a run. A weekly or biweekly schedule runs on its weekday.",
		"end_date":   "Last possible day of a run; empty for none.",
		"days": "Days of the month: one for `monthly`, two for `semimonthly`, the first of them up to 27. A day that a " +
			"month lacks is its last day, so 31 is always the last day.",
		"working_day": "What to do if the day is not a working day: pay anyway (`none`), on the last working day " +
			"`before` it, or on the first one `after` it. Default: `before`.",
		"calendar": "Country whose public holidays are not working days, or `weekdays` for Monday to Friday without " +
			"holidays. Default: the company's country or, if its holidays are not known, `weekdays`.",
		"time_zone":       "Time zone of the days, by its IANA name. Default: `UTC`.",
		"days_ahead":      "Days between the creation of a payroll and its pay date, up to 28.",
		"funding_method":  "Funding method of the payrolls, as in the creation of a payroll.",
		"funding_network": "Network of the funding payments, if the currency has several.",
	},
	"scheduleUpdateBody": {
		"working_day": "What to do if the day is not a working day: pay anyway (`none`), on the last working day " +
			"`before` it, or on the first one `after` it. Default: it stays.",
		"calendar": "Country whose public holidays are not working days, or `weekdays` for Monday to Friday without " +
			"holidays. Default: it stays.",
		"time_zone":  "Time zone of the days, by its IANA name. Default: it stays.",
		"name":       "Your name of the schedule.",
		"status":     "`paused` creates no payrolls until the schedule is `active` again; `ended` is final.",
		"end_date":   "Last possible day of a run; empty for none.",
		"days_ahead": "Days between the creation of a payroll and its pay date, up to 28.",
	},
	"scheduleRunBody": {
		"day":    "Day of the run, before the working-day rule.",
		"status": "`skipped`, or `planned` to plan it again.",
		"to_pay": "Payees and amounts of this run. Default: those of the schedule.",
	},
	"scheduleRun": {
		"run_id":     "ID of the run; empty while it is planned and unchanged.",
		"day":        "Day of the run, before the working-day rule.",
		"pay_date":   "Day on which its payees are paid.",
		"reason":     "Why it waits, as an error code, or `paused` if a pause skipped it; otherwise empty.",
		"payroll_id": "ID of its payroll; empty before it is created.",
		"changed":    "Whether it has payees and amounts of its own.",
	},
	"ScheduleSummary": {
		"name":          "Your name of the schedule.",
		"next_run":      "Day of the next run, before the working-day rule; empty if there is none.",
		"next_pay_date": "Pay date of the next run; empty if there is none.",
	},
	"scheduleDetail": {
		"runs": "The last 24 runs and the next six, oldest first.",
	},
	"scheduleRunChanged": {
		"run": "The run after the change.",
	},
	"payrollDetail": {
		"pay_date":      "Day on which the payees are paid; empty if they are paid as soon as the payroll is funded.",
		"bank_transfer": "The bank transfer that funds the payroll; present while the payroll waits for it.",
		"debit_id":      "ID of the direct debit that funds the payroll; present with `funding_method` `direct_debit`.",
	},
	"payrollCreated": {
		"debit_id": "ID of the direct debit that funds the payroll; present with `funding_method` `direct_debit`.",
	},
	"payrollPreview": {
		"pay_date":       "Day on which the payees are paid, by the working-day rule; empty without a pay date.",
		"funding_amount": "Amount to pay in the funding currency at the current rate; absent if no rate is available.",
		"approvals_needed": "Number of members who must approve the payroll before its release; 0 if its total is " +
			"within the company's limit.",
	},
	"payrollStep": {
		"from": "Previous state; empty at creation.",
		"to":   "New state.",
	},
	"problem": {
		"errors": "All problems of the request, in order, at most 100. `code` and `detail` repeat the first.",
	},
	"recipientCreateBody": {
		"name": "Name of a company recipient. For a person, an alternative to first_name and last_name.",
	},
	"recipientDestinationCorrectBody": {
		"correction_id": "ID of the correction, from the destination's `correction`.",
	},
	"recipientDestinationCreateBody": {
		"distribution_data": "Details of the destination: the fields that GET " +
			"/api/company/{company_id}/recipients/{recipient_id}/distribution/fields lists for the currency.",
	},
	"recipientImportBody": {
		"csv": "The CSV file, with at most 10,000 rows. Its first row contains the column names, which are the " +
			"fields of create, in any order.",
	},
	"redeliverBody": {
		"which": "Deliveries to repeat. `failed`, the default: those that failed, were cancelled or blocked, or were " +
			"never attempted. `all`: also those that succeeded.",
	},
	"requiredField": {
		"depends_on": "The field is required only if another field has this value.",
	},
	"sandboxDepositBody": {
		"payroll_id": "ID of the payroll to pay: on its chain or, if it is funded by bank, by transfer. Set this, " +
			"claim_id or wallet_id.",
		"claim_id": "ID of the claim to pay. Set this, payroll_id or wallet_id.",
		"wallet_id": "ID of the wallet to pay; requires an amount. A wallet deposit cannot be late. Set this, " +
			"payroll_id or claim_id.",
		"network": "Network of a wallet deposit. Default: the wallet's first network. `lightning` pays the Lightning " +
			"invoice of a claim, if the sandbox simulates a Lightning node.",
		"kind": "Case to simulate. A bank transfer can be `exact`, `under`, `over`, or `reorged` for one that the " +
			"bank reverses.",
	},
	"sandboxKYB": {
		"kyb_state": "State of the verification that was decided.",
	},
	"sandboxKYBBody": {
		"ubo_id": "ID of the owner whose verification to decide. Default: the company.",
	},
	"sandboxReturnBody": {
		"reason": "Return reason code of the rail, for example AC04, or R02 for ACH. Default: chosen by the bank.",
	},
	"settlement": {
		"withdrawal_id": "ID of the withdrawal to the company's destination; empty if the amount is in the balance.",
	},
	"toPayItem": {
		"user_id":    "ID of the payee: a worker's user ID, or the `rec_…` ID of a person.",
		"category":   "Your own category of the payment.",
		"company_id": "The `rec_…` ID of a payee that is a company.",
	},
	"uploadBody": {
		"doc_type": "Type of document: `tax_id`, or one of the required document types.",
		"category": "Side of the document. Use `front` for passports, proofs of address and selfies.",
		"issuing_country": "Country that issued the document: 2-letter ISO code. Required for an image, and for a " +
			"tax ID of a country other than the user's.",
		"base64_image": "The image in base64: one JPEG or PNG of at most 10 MiB and 40 megapixels, with at least 600 " +
			"pixels on the shorter side (in the sandbox, any size).",
	},
	"userCreateBody": {
		"phone_number": "Telephone number: international, for example +14155552671, or national for phone_country.",
		"state": "State, province or region: its code or name; stored as the code. May be empty outside AU, BR, CA, " +
			"IN, MX and US.",
	},
	"userDestinationCorrectBody": {
		"correction_id": "ID of the correction, from the destination's `correction`.",
	},
	"userDestinationCreateBody": {
		"distribution_data": "Details of the destination: the fields that GET /api/user/distribution/fields lists " +
			"for the currency.",
	},
	"taxFormBody": {
		"tax_id_type": "Required on a W-9: `ssn`, `itin` or `ein`.",
		"tax_id": "Required on a W-9: the taxpayer identification number. On a W-8BEN: the foreign tax ID, if the user " +
			"has one.",
		"classification": "Required on a W-9: `individual`, `c_corporation`, `s_corporation`, `partnership`, " +
			"`trust_estate`, `llc` or `other`.",
		"date_of_birth": "Required on a W-8BEN: YYYY-MM-DD.",
		"country":       "Country of residence, required on a W-8BEN. On a W-9 it is the United States.",
		"name":          "Name as on the user's tax return.",
	},
	"taxForm": {
		"status":      "Whether there is a form and it is still valid.",
		"name":        "Name on the form.",
		"tax_id":      "Tax ID, masked except for its last four characters; empty if there is none.",
		"tax_id_type": "Type of the tax ID of a W-9: `ssn`, `itin` or `ein`; otherwise empty.",
	},
	"yearPayee": {
		"payments": "Number of payments that reached the payee in the year.",
		"payee_id": "ID of the payee: a user with a login, otherwise a recipient.",
	},
	"journalInput": {
		"currency": "Currency of the values. Default: USD.",
		"month":    "Month, such as 2026-01. Default: the present one.",
		"format":   "Columns of the file. Default: csv, which has all of them.",
		"part": "Number of the part, from 1. A part has at most 1,000 lines for QuickBooks Online and 300 for Xero, and " +
			"whole entries. `csv` has one part. A part after the last has no lines.",
	},
	"journalAccounts":     {"accounts": "All accounts, in the order of a chart of accounts."},
	"journalAccountsBody": {"accounts": "The accounts to set."},
	"journalAccount": {
		"account": "The account: `balance`, `held`, `payrolls`, `claims`, `debt`, `transfers`, `sales`, `refunds`, `pay`, " +
			"`fees`, `exchange`, or `tax_rate`, which is not an account.",
		"code": "The company's code of the account; empty for `tax_rate`.",
		"name": "The company's name of the account. For `tax_rate`, the name of the tax rate in Xero for no tax.",
	},
	"journalAccountBody": {
		"account": "The account, as in the list.",
		"code":    "The company's code of the account. Default: that of Stipend.",
		"name":    "The company's name of the account. Default: that of Stipend.",
	},
	"yearTotal": {
		"amount": "Sum of the payments in the currency.",
	},
	"userUpdateBody": {
		"country": "Country: 2-letter ISO code. state and zip must be valid in the country.",
	},
	"vendorDocument": {
		"media_type": "Media type of the stored document. Images are converted to JPEG.",
		"sha256":     "SHA-256 digest of the stored document, in hexadecimal.",
	},
	"vendorItem": {
		"vendor_id":   "ID of the vendor: a recipient that is a company or has the role vendor.",
		"document_id": "ID of the vendor's invoice, which must be uploaded first.",
		"category":    "Your own category of the payment.",
	},
	"vendorPayrollBody": {
		"external_id": "Your own reference of the payroll, unique per company.",
	},
	"vendorQuoteItem": {
		"vendor_id": "ID of the vendor: a recipient that is a company or has the role vendor.",
	},
	"vendorUploadBody": {
		"base64_document": "The document in base64: a PDF, or one JPEG or PNG with at least 600 pixels on the " +
			"shorter side; at most 10 MiB.",
	},
	"walletBalance": {
		"status": "State of the wallet request; empty if there was none.",
		"address": "Permanent deposit address. Deposits are credited to the balance. Empty for a fiat currency or an " +
			"inactive wallet.",
		"networks": "Networks of the address. Deposits on other networks or in other currencies are not credited.",
	},
	"walletDeposit": {
		"wallet_id": "ID of the wallet that has the address; empty if staff assigned the deposit to the company.",
		"status":    "State of the deposit. A confirmed deposit is credited to the balance.",
	},
	"walletStatement": {
		"closing_balance": "Balance at the end of the period: opening_balance + total_in − total_out.",
	},
	"walletStatementExport": {
		"account": "Account: `available` is the balance, `claims` the proceeds of merchant claims that are not " +
			"settled yet.",
	},
	"walletStatementGet": {
		"account": "Account: `available` is the balance, `claims` the proceeds of merchant claims that are not " +
			"settled yet.",
	},
	"walletTransactions": {
		"account": "Account: `available` is the balance, `claims` the proceeds of merchant claims that are not " +
			"settled yet.",
	},
	"webhookCreateBody": {
		"events": "Event names, or prefixes such as `payroll.*`. Empty, or `*`, means all.",
	},
	"WebhookEndpoint": { //nolint:gosec // texts, no credentials
		"reason":           "Reason for being disabled; empty if the endpoint is enabled.",
		"old_secret_until": "When the previous secret stops signing, UTC; empty if it does not sign.",
	},
	"webhookRotateBody": {
		"overlap_seconds": "Seconds for which the old secret also signs. Default: one day.",
	},
	"webhookUpdateBody": {
		"events": "Event names, or prefixes such as `payroll.*`. Empty, or `*`, means all. Default: unchanged.",
	},
	"mandateAnswer": { //nolint:gosec // no credential
		"reference":   "The unique mandate reference.",
		"creditor_id": "SEPA creditor identifier; empty for ACH.",
		"accepted_by": "ID of the member who accepted the mandate.",
		"reason":      "Reason of the state, such as a bank's code; may be empty.",
	},
	"mandateProof": {
		"text": "The text that the member accepted.",
	},
	"debitAnswer": {
		"released_amount": "Part of the amount that was credited to the balance.",
		"held_until":      "When the hold ends, UTC; missing before the money was collected.",
		"retry_of":        "ID of the returned direct debit that it repeats; empty for none.",
		"payroll_id":      "ID of the payroll that it funds; empty for none.",
		"reason":          "Reason of the state, such as a bank's code; may be empty.",
	},
	"debitBody": {
		"due_on": "The day on which the account is debited, at most 90 days ahead. An earlier day than the notice " +
			"and the bank allow is postponed. Default: the first possible day.",
		"description": "Text on the bank statement.",
		"final":       "Whether it is the last direct debit under the mandate, which then ends.",
	},
	"sandboxMandateBody": {
		"account": "IBAN or account number. Default: one that pays every debit.",
	},
	"sandboxDebitReturnBody": {
		"reason": "The bank's reason code. Default: R01 or AM04.",
	},
	"withdrawalAnswer": {
		"destination":      "Masked details of the destination.",
		"reason":           "Reason for waiting or for the outcome; may be empty.",
		"approvals_needed": "Required approvals by owners or administrators; 0 if none is pending.",
	},
}
