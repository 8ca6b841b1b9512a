package httpapi

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// fieldDoc describes every field or parameter with a name, wherever it occurs. A doc or example tag on a field
// overrides it.
type fieldDoc struct {
	doc     string
	example string // JSON; may be empty
}

// fieldDocs describes the fields of the API by name, in related groups.
var fieldDocs = map[string]fieldDoc{
	// Ids. They are opaque.
	"company_id": {"ID of the company.", `"com_06gf58g6w1v5s708fp7tx3xdw0"`},
	"user_id": {
		"ID of the person (`usr_…`). In lists of payees, a recipient without a login is identified by its `rec_…` ID.",
		`"usr_06gf58g6w28xgvfnbjvbc8gg88"`,
	},
	"recipient_id":    {"ID of the recipient.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"relationship_id": {"ID of the link between the company and the recipient.", `"rel_06gf58g6w16389bj6g1srq4d38"`},
	"distribution_id": {"ID of the payment destination.", `"dst_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"payroll_id":      {"ID of the payroll.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"subpayroll_id":   {"ID of one payment of a payroll: what one payee gets.", `"pmt_06gf58g6w2b01306dn9h8c6vcg"`},
	"payment_id":      {"ID of one payment of a payroll: what one payee gets.", `"pmt_06gf58g6w2b01306dn9h8c6vcg"`},
	"output_id": {
		"ID of one output of a payment: the share that goes to one destination.",
		`"out_06gf58g6w3sm743akvrytz3w8m"`,
	},
	"quote_id":    {"ID of the quote.", `"quo_06gf58g6w2sp4kq83hxe3nh5pm"`},
	"deposit_id":  {"ID of the deposit: money that came in.", `"dep_06gf58g6w2kvkqtk50xh3s8knw"`},
	"claim_id":    {"ID of the merchant claim.", `"clm_06gf58g6w17gqvggteagdzt4pg"`},
	"invoice_id":  {"ID of the invoice.", `"inv_06gf58g6w2b0ta81jn2xqare0m"`},
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
	"wallet_id":           {"ID of the company's wallet in one currency.", `"wal_06gf58g6w0aychq170kks701q0"`},
	"withdrawal_id":       {"ID of the withdrawal.", `"wdr_06gf58g6w0aychq170kks701q0"`},
	"destination_id":      {"ID of a destination of the company's own.", `"dst_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"transaction_id":      {"ID of the transaction.", `"jrn_06gf58g6w23xf7hs63s9x5j7sc"`},
	"webhook_id":          {"ID of the webhook endpoint.", `"whk_06gf58g6w2messfavdnba8x1fm"`},
	"endpoint_id":         {"ID of the webhook endpoint.", `"whk_06gf58g6w2messfavdnba8x1fm"`},
	"event_id":            {"ID of the event, the same in every delivery of it.", `"evt_06gf58g6w2qkhv375vsd8b2pm4"`},
	"delivery_id":         {"ID of one delivery of an event to one endpoint.", `"dlv_06gf58g6w3294yb3vz4hvc9zng"`},
	"invitation_id":       {"ID of the invitation.", `"ivt_06gf58g6w100qc30sdjrkvr1n4"`},
	"ubo_id":              {"ID of the beneficial owner.", `"ubo_06gf58g6w35wxgp84a80mg25h8"`},
	"object_id":           {"ID of the payroll or payment whose state changed.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"client_id":           {"ID of the authentication app, as its settings show it.", `"cli_06gf58g6w1rrf1wfby3nckp71r"`},
	"id":                  {"ID of the object.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"external_id":         {"Your own reference, unique per company; up to 255 characters.", `"run-2026-09"`},
	"external_payment_id": {"Your own reference of this payment; up to 255 characters.", `"run-2026-09/ada"`},
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
	"tax_id":                    {"The tax ID.", `"AB123456C"`},
	"tax_id_type":               {"Type of tax ID, from the list of document types.", `"nino"`},
	"tax_id_types":              {"Types of tax ID, one of which is required; empty if none is.", `["nino"]`},
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
			"decimals; greater than 0.",
		`1250.50`,
	},
	"fees":                             {"Fees, in the payroll's currency.", `12.51`},
	"volume_input_in_input_currency":   {"Sum of the payees' amounts without fees, in the payroll's currency.", `1250.50`},
	"volume_output_in_output_currency": {"Payout amount in the output's currency; 0 until it is known.", `0.02501000`},
	"total_input_in_input_currency": {
		"Total that the company pays: volume plus fees, in the payroll's currency.",
		`1263.01`,
	},
	"funding_method": {
		"Funding method: `crypto` by a quote, `bank` by a transfer, `wallet` from the company's balance, or the ID " +
			"of one wallet.",
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
	"return_url": {"URL to which the checkout returns.", `"https://shop.example/orders/17"`},
	"lightning_invoice": {
		"BOLT 11 payment request for the funding amount, valid as long as the quote; empty if Lightning is not " +
			"offered, the invoice is not ready, or a payment for the quote was received.",
		`""`,
	},
	"payment_uri": {
		"Payment URI of the quote (BIP 321), including the Lightning invoice if there is one; empty once a payment " +
			"was received or the quote expired.",
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
	"settlement_destination_id": {"Destination to which settlements are withdrawn.", `""`},
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
	"items":      {"The lines.", ``},
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
	"credential_id": {"ID of the credential that did it.", `"key_06gf58g6w2m6f5zq3astchg954"`},
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
	"bic":                 {"BIC of the bank; may be empty.", `"COBADEFFXXX"`},
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
	"error_description": {"What is wrong, for people.", `"The code is unknown, used or expired."`},

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
	"data":        {"The items of this page.", ``},
	"meta":        {"Position of the page in the list.", ``},
	"page":        {"Number of the page, from 1.", `1`},
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
	"success":    {"true if it succeeded.", `true`},
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
	"source_id":   {"ID of the object that moved the money.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
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
			"country; for crypto `address`, and `network`, `tag` or `transfer_memo` where the currency requires them.",
		`{"address":"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"}`,
	},
	"allocation": {
		"Share of each payment that goes to this destination, in whole percent; a payee's allocations total 100.",
		`100`,
	},
	"allocations": {"1 to 3 allocations totaling 100. A destination that is not listed gets 0.", ``},
	"payable": {
		"Whether this service pays to such a destination. If false, a destination is validated and stored, but a " +
			"payroll whose payee allocates a share to it is rejected with `currency_not_supported`.",
		`true`,
	},
	"correction_id":   {"ID of the correction that the bank asks for.", `"cor_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"required_fields": {"The fields of `distribution_data`, in the order of a form.", `[]`},

	// Errors.
	"type":    {"Type.", ``},
	"code":    {"Error code for programs.", `"not_found"`},
	"detail":  {"What is wrong, for people.", `"The object does not exist, or the credential has no access to it."`},
	"message": {"What is wrong and what is expected, for people.", `"The field country is required."`},
	"pointer": {"Place: a JSON pointer into the body, or the name of a parameter or header.", `"/country"`},
	"in":      {"Part of the request that the pointer refers to.", `"body"`},
	"errors": {
		"All problems of the request, in order, at most 100. `code` and `detail` repeat the first. Empty if no " +
			"particular field is wrong.",
		``,
	},

	// The sandbox.
	"kind":                   {"Kind.", ``},
	"sat_per_vbyte":          {"Fee rate of the chain, in satoshis per virtual byte.", `200`},
	"previous_sat_per_vbyte": {"Previous fee rate.", `2`},
	"advance_seconds":        {"Seconds to advance the service's clock.", `60`},
	"now":                    {"The service's time now, UTC.", ``},
}

// exampleTime is the time in examples.
const exampleTime = "2026-09-30T14:05:00Z"

// describeMembers adds descriptions and examples to the members of a schema that have none. t is the struct that the
// schema was made from, or nil.
func describeMembers(t reflect.Type, s *huma.Schema, request bool) {
	if t != nil && t.Kind() == reflect.Struct {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if member := s.Properties[name]; member != nil && member.Description == "" {
				member.Description = typeFieldDocs[declaringType(t, f).Name()][name]
			}
		}
	}
	for name, member := range s.Properties {
		describeMember(name, member, request && !isRequired(s, name))
	}
}

// declaringType returns the struct that declares a visible field of t: t itself or one that it embeds.
func declaringType(t reflect.Type, f reflect.StructField) reflect.Type {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t
}

// ownCompany is added to the description of an optional company_id in a request.
const ownCompany = " Default: the company that the credential acts for. Any other is rejected."

func describeMember(name string, s *huma.Schema, optional bool) {
	w := fieldDocs[name]
	if s.Description == "" {
		s.Description = w.doc
		if optional && name == "company_id" {
			s.Description += ownCompany
		}
	}
	if len(s.Examples) > 0 || s.Ref != "" || s.Type == huma.TypeObject && len(s.Properties) > 0 {
		return
	}
	if w.example != "" && fits(s, w.example) {
		s.Examples = []any{json.RawMessage(w.example)}
	}
}

// fits reports whether an example matches the schema: a field may be a number in one place and a string in another.
func fits(s *huma.Schema, example string) bool {
	kind := map[byte]string{'"': huma.TypeString, '{': huma.TypeObject, '[': huma.TypeArray, 't': huma.TypeBoolean,
		'f': huma.TypeBoolean}[example[0]]
	if kind == "" {
		return s.Type == huma.TypeNumber || s.Type == huma.TypeInteger
	}
	if s.Type != kind {
		return false
	}
	if kind != huma.TypeString {
		return kind != huma.TypeArray || example == "[]" || s.Items != nil && s.Items.Type == huma.TypeString &&
			len(s.Items.Enum) == 0
	}
	var text string
	return json.Unmarshal([]byte(example), &text) == nil && checkString(s, nil, text) == "" && s.Format != "date-time"
}

// exampleOf returns an example of a schema made from those of its members. An example of a request contains the
// required members, one of a response all.
func exampleOf(reg huma.Registry, s *huma.Schema, request bool) any {
	if len(s.Examples) > 0 {
		return s.Examples[0]
	}
	s = resolve(reg, s)
	switch {
	case len(s.Examples) > 0:
		return s.Examples[0]
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 1 && s.Enum[0] == "":
		return s.Enum[1] // prefer a nonempty value
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case huma.TypeObject:
		members := map[string]any{}
		for name, m := range s.Properties {
			if !request || isRequired(s, name) {
				members[name] = exampleOf(reg, m, request)
			}
		}
		return members
	case huma.TypeArray:
		return []any{exampleOf(reg, s.Items, request)}
	case huma.TypeBoolean:
		return true
	case huma.TypeInteger, huma.TypeNumber:
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 0
	}
	switch s.Format {
	case "date-time":
		return exampleTime
	case "date":
		return exampleTime[:len("2026-09-30")]
	case "email":
		return "ada@example.com"
	case "uri":
		return "https://example.com"
	}
	if s.MinLength != nil {
		return strings.Repeat("x", *s.MinLength)
	}
	return ""
}

func isRequired(s *huma.Schema, name string) bool {
	for _, r := range s.Required {
		if r == name {
			return true
		}
	}
	return false
}

// typeFieldDocs describes fields and parameters of single types, by type and name. They override fieldDocs.
var typeFieldDocs = map[string]map[string]string{
	"allocationsBody": {
		"allocations": "1 to 3 allocations totaling 100. A destination that is not listed gets 0.",
	},
	"bankDepositBody": {
		"reference": "Reference of the bank. A repeated reference is the same transfer.",
	},
	"bankTransfer": {
		"reference": "Reference to use for the payment. It identifies the payroll.",
	},
	"claimCreateBody": {
		"amount":           "Amount due in the denomination currency, with at most its decimals; greater than 0.",
		"funding_currency": "Currency in which the payer pays: BTC.",
		"description":      "Description of the purchase, shown at the checkout.",
		"return_url":       "URL to which the checkout returns; must have one of the origins in the merchant settings.",
	},
	"claimRefunded": {
		"amount": "Amount to refund, as decimal text; the network fee is deducted from it.",
	},
	"ClaimSummary": {
		"tx_hash": "Transaction that completed the payment, or the payment hash over Lightning; before that the " +
			"latest one, or empty.",
	},
	"companyDetail": {
		"kyb_state": "Detailed state of the verification; empty before the company submitted its details.",
		"ubos":      "Beneficial owners and control persons. Only shown to an API key of the company.",
	},
	"companyUploadBody": {
		"doc_type": "For a company: certificate_of_incorporation, articles_of_association, shareholder_register, " +
			"proof_of_address, bank_statement, tax_certificate, other or tax_id. For an owner: as for a user.",
		"base64_image": "One JPEG or PNG, at most 10 MiB and 40 megapixels, at least 600 pixels on the shorter side " +
			"(in the sandbox, any size).",
	},
	"companyVerification": {
		"kyb_state": "Detailed state of the verification; empty before the company submitted its details.",
	},
	"correction": {
		"distribution_data": "Complete data as requested by the bank, with bank data masked.",
	},
	"currencyItem": {
		"countries": "Countries of payees who can have a bank destination in the currency. Empty for a crypto " +
			"currency, which is available in every country.",
	},
	"DeliveryItem": {
		"error": "Class of the last failure.",
	},
	"deliveryList": {
		"name": "Event types and prefixes such as payroll.*, separated by commas.",
	},
	"deliveryTry": {
		"error": "Class of the failure; empty if successful.",
	},
	"distributionChange": {
		"before": "Destination before the change, with bank data masked; absent if it was created.",
		"after":  "Destination after the change; absent if it was deleted.",
	},
	"distributionCorrectBody": {
		"correction_id": "ID of the correction that the destination shows.",
	},
	"distributionCreateBody": {
		"distribution_data": "An object with the fields that …/distribution/fields lists for the symbol and the " +
			"recipient's country.",
	},
	"distributionItem": {
		"correction": "Correction requested by the bank; absent if there is none.",
	},
	"documentType": {
		"doc_type":     "Values for doc_type of an upload. One identity document is sufficient.",
		"tax_id_types": "Tax ID types of the user's country. One is required if the list has the entry tax_id.",
	},
	"documentTypesInput": {
		"external_company_id": "Consider only the currency of this payer. Default: all payers of the user.",
	},
	"eventList": {
		"name":  "Event types and prefixes such as payroll.*, separated by commas.",
		"after": "ID of the last event received: continue after it, in the given order.",
	},
	"fundingAccount": {
		"reason": "Why it is suspended or closed.",
	},
	"fundingOpenBody": {
		"user_id": "Owner of the account. With an API key: a user that the company created, or absent for the " +
			"company itself.",
		"terms_version": "Version of the terms to accept; see GET /api/user/funding/account/tos.",
	},
	"importedRow": {
		"status": "existing: a recipient with this external_id exists; the row was skipped.",
	},
	"invitationItem": {
		"reason": "For a revoked invitation: revoked by the company, or declined by the person.",
	},
	"invoiceCreateBody": {
		"number":   "Unique per user. Default: the next free number.",
		"currency": "The payer's payroll_invoice_currency.",
		"due_date": "Default: 30 days after the issue date.",
		"draft":    "Create a draft, which cannot be paid before it is sent.",
	},
	"invoiceList": {
		"status": "Default: all that are not void.",
	},
	"kycInitiated": {
		"user_id": "Page of the verification. In the sandbox you decide at /sandbox/verifications/{user_id}.",
	},
	"merchantSettingsBody": {
		"confirmations":       "0, 1, 2 or 6. 0 applies to claims up to 100 USD; larger ones require 1.",
		"settlement_currency": "BTC, or empty for the currency of each claim.",
		"settlement_destination_id": "Destination of the company to which settlements in its currency are withdrawn; " +
			"empty leaves them in the balance.",
		"support_email": "Support address shown at the checkout; may be empty.",
	},
	"oauthTokenBody": {
		"code_verifier": "PKCE verifier, required if the authorization request had a code_challenge.",
	},
	"onboardBody": {
		"registration_number": "Required before the verification starts, like the following fields up to city.",
	},
	"ownerBody": {
		"ownership_percentage": "0 to 100, at most 2 decimals. An owner of 25 or more must be verified.",
		"control_person":       "Controls the company and must be verified whatever their share.",
	},
	"payerCreateBody": {
		"user_id": "Owner of the payer. With an API key: a user that the company created, or absent for the company " +
			"itself.",
		"website":        "An http or https URL. Stored but never fetched.",
		"street_address": "For a client, like the other address fields.",
	},
	"paymentDetail": {
		"destination_changed": "When the payee's destination changed since their last payment, within the last 30 " +
			"days, UTC; absent if it did not, or once this payment was sent.",
	},
	"payoutOutput": {
		"rate_base": "Base currency of rate, one of the two; empty if nothing was exchanged.",
		"rate": "Exchange rate of the output at its release: price of one whole unit of rate_base in the other " +
			"currency. 0 if nothing was exchanged or the payroll was funded at several rates.",
	},
	"payrollCreateBody": {
		"funding_method": "crypto, bank, wallet, or the ID of a wallet. Default: the company's funding method.",
		"funding_network": "Network, if the funding currency is available on several: one of its funding_networks in " +
			"GET /api/currencies.",
		"external_id": "Your own reference, unique per company.",
	},
	"payrollDetail": {
		"bank_transfer": "Present while the payroll waits for a bank transfer.",
	},
	"payrollPreview": {
		"funding_amount":   "At the current rate; absent if no rate is available.",
		"approvals_needed": "Members who must approve it before its release; 0 if its total is within the company's limit.",
	},
	"payrollStep": {
		"from": "Previous state; empty at creation.",
		"to":   "New state.",
	},
	"problem": {
		"errors": "All problems of the request, in order, at most 100. code and detail repeat the first.",
	},
	"recipientCreateBody": {
		"name": "For a company recipient, or for a person instead of first_name and last_name.",
	},
	"recipientImportBody": {
		"csv": "The file, at most 10,000 rows. Its first row contains the column names: the fields of the worker " +
			"payload, in any order.",
	},
	"redeliverBody": {
		"which": "failed (default): deliveries that failed, were cancelled or blocked, or were never attempted. all: " +
			"also successful ones.",
	},
	"requiredField": {
		"depends_on": "Condition: required only if another field has this value.",
	},
	"sandboxDepositBody": {
		"payroll_id": "Payroll to pay, on its chain or, if it is funded by bank, by transfer. Alternatively set " +
			"claim_id or wallet_id.",
		"claim_id": "Claim to pay. Alternatively set payroll_id or wallet_id.",
		"wallet_id": "Wallet to pay, with an amount. Alternatively set payroll_id or claim_id. A wallet deposit " +
			"cannot be late.",
		"network": "Network of the wallet deposit. Default: its first network.",
		"kind":    "For a bank transfer: exact, under, over, or reorged if the bank reverses it.",
	},
	"sandboxKYB": {
		"kyb_state": "State of the verification that was decided.",
	},
	"sandboxKYBBody": {
		"ubo_id": "Owner whose verification to decide. Default: the company.",
	},
	"sandboxReturnBody": {
		"reason": "Return reason code of the rail: AC04, or R02 for ACH. Default: chosen by the bank.",
	},
	"settlement": {
		"withdrawal_id": "Withdrawal to the company's destination; empty if the amount is in the balance.",
	},
	"toPayItem": {
		"user_id":  "A worker's user ID, or the rec_ ID of a person.",
		"category": "Your own category of the payment.",
	},
	"uploadBody": {
		"doc_type":        "tax_id, or one of the required document types.",
		"category":        "Side of an image. Use front for passports, proofs of address and selfies.",
		"issuing_country": "2-letter ISO code. Required for an image, and for a tax ID of another country than the user's.",
		"base64_image": "One JPEG or PNG, at most 10 MiB and 40 megapixels, at least 600 pixels on the shorter side " +
			"(in the sandbox, any size).",
	},
	"userAllocationsBody": {
		"allocations": "1 to 3 allocations totaling 100. A destination that is not listed gets 0.",
	},
	"userCreateBody": {
		"phone_number": "International, such as +14155552671, or national for phone_country.",
		"state":        "Code or name; stored as code. May be empty outside AU, BR, CA, IN, MX and US.",
	},
	"userDistributionCorrectBody": {
		"correction_id": "ID of the correction that the destination shows.",
	},
	"userDistributionCreateBody": {
		"distribution_data": "An object with the fields that GET /api/user/distribution/fields lists.",
	},
	"userDistributionItem": {
		"correction": "Correction requested by the bank; absent if there is none.",
	},
	"userUpdateBody": {
		"country": "2-letter ISO code. state and zip must fit.",
	},
	"vendorDocument": {
		"media_type": "Media type as stored; images are converted to JPEG.",
	},
	"vendorItem": {
		"vendor_id":   "A recipient that is a company or has the role vendor.",
		"document_id": "The vendor's invoice, uploaded before.",
		"category":    "Your own category of the payment.",
	},
	"vendorPayrollBody": {
		"external_id": "Your own reference, unique per company.",
	},
	"vendorQuoteItem": {
		"vendor_id": "A recipient that is a company or has the role vendor.",
	},
	"vendorUploadBody": {
		"base64_document": "A PDF, or one JPEG or PNG with at least 600 pixels on the shorter side; at most 10 MiB.",
	},
	"walletBalance": {
		"status": "State of the wallet request; empty if there was none.",
		"address": "Permanent deposit address. Deposits are credited to the balance. Empty for a fiat currency or an " +
			"inactive wallet.",
		"networks": "Networks of the address. Deposits on other networks or in other currencies are not credited.",
	},
	"walletDeposit": {
		"wallet_id": "Wallet of the address; empty if staff assigned the deposit to the company.",
		"status":    "confirmed: credited to the balance.",
	},
	"walletStatement": {
		"closing_balance": "Balance at the end of the period: opening_balance + total_in − total_out.",
	},
	"walletStatementGet": {
		"account": "available: the balance; claims: proceeds of merchant claims that are not settled yet.",
	},
	"walletTransactions": {
		"account": "available: the balance; claims: proceeds of merchant claims that are not settled yet.",
	},
	"webhookCreateBody": {
		"events": "Event types, or prefixes such as payroll.*; empty or * means all.",
	},
	"WebhookEndpoint": {
		"reason":           "Why it is disabled: requested, gone or failing.",
		"old_secret_until": "Until when the previous secret also signs; empty if it does not.",
	},
	"webhookRotateBody": {
		"overlap_seconds": "How long the old secret also signs. Default: one day.",
	},
	"webhookUpdateBody": {
		"events": "Event types, or prefixes such as payroll.*; empty or * means all. Default: unchanged.",
	},
	"withdrawalAnswer": {
		"destination":      "Masked details of the destination.",
		"reason":           "Reason for waiting or for the outcome; may be empty.",
		"approvals_needed": "Required approvals by owners or administrators; 0 if none is pending.",
	},
}
