package httpapi

// fieldDoc describes every field or parameter with a given name, wherever it occurs. A doc or example tag of a field
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
	"wallet": {"Who hosts the wallet of a crypto destination; see the operation that states it.", ``},
	"hosting": {
		"Who controls the keys of the wallet: the payee (self_hosted) or a provider (vasp). Empty if unknown.",
		`"self_hosted"`,
	},
	"vasp_name": {
		"Legal name of the provider that hosts the wallet, such as an exchange. Required for vasp, and only there.",
		`"Example Exchange Ltd"`,
	},
	"vasp_lei":          {"Legal entity identifier of the provider. Optional.", `"529900T8BM49AURSDO55"`},
	"challenge":         {"Text to sign with the wallet. Empty if there is none.", ``},
	"challenge_expires": {"When the challenge ends, UTC. Absent if there is none.", `"2026-09-14T10:30:00Z"`},
	"proof_format": {
		"Format of the signature that proves control of the wallet. Empty without a proof.", `"bip322"`,
	},
	"proved": {"When control of the wallet was proved, UTC. Absent without a proof.", `"2026-09-14T09:30:00Z"`},
	"signature": {
		"Signature of the challenge: 65 bytes in hexadecimal for EVM, base64 for Bitcoin.",
		`"0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43fe208a4a4f339f5fd…"`,
	},
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
