package httpapi

import (
	"encoding/json"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// word is what the contract says of a member or parameter of a name wherever it occurs: one word, one meaning, as in the
// glossary. A doc or example tag on a field says it more exactly for that place.
type word struct {
	doc     string
	example string // JSON; "" when the schema itself shows one
}

// words are the words of the interface, in groups that belong together.
var words = map[string]word{
	// Ids. They are opaque.
	"company_id":          {"Id of the company.", `"com_06gf58g6w1v5s708fp7tx3xdw0"`},
	"user_id":             {"Id of the person (`usr_…`). Where payees are named, a recipient without a login goes by its `rec_…` id.", `"usr_06gf58g6w28xgvfnbjvbc8gg88"`},
	"recipient_id":        {"Id of the recipient.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"relationship_id":     {"Id of the link between the company and the recipient.", `"rel_06gf58g6w16389bj6g1srq4d38"`},
	"distribution_id":     {"Id of the payment destination.", `"dst_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"payroll_id":          {"Id of the payroll.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"subpayroll_id":       {"Id of one payment of a payroll: what one payee gets.", `"pmt_06gf58g6w2b01306dn9h8c6vcg"`},
	"payment_id":          {"Id of one payment of a payroll: what one payee gets.", `"pmt_06gf58g6w2b01306dn9h8c6vcg"`},
	"output_id":           {"Id of one output of a payment: the share that goes to one destination.", `"out_06gf58g6w3sm743akvrytz3w8m"`},
	"quote_id":            {"Id of the quote.", `"quo_06gf58g6w2sp4kq83hxe3nh5pm"`},
	"deposit_id":          {"Id of the deposit: money that came in.", `"dep_06gf58g6w2kvkqtk50xh3s8knw"`},
	"claim_id":            {"Id of the merchant claim.", `"clm_06gf58g6w17gqvggteagdzt4pg"`},
	"invoice_id":          {"Id of the invoice.", `"inv_06gf58g6w2b0ta81jn2xqare0m"`},
	"document_id":         {"Id of the document.", `"doc_06gf58g6w0w5dpzz01n4wqzwfw"`},
	"external_company_id": {"Id of the payer (`pyr_…`): somebody outside of this service who pays the user.", `"pyr_06gf58g6w1sd2bmncbk8f913rm"`},
	"vendor_id":           {"Id of the vendor, a recipient.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"payer_id":            {"Id of the payer (`pyr_…`), or the merchant's own reference for its customer.", `"pyr_06gf58g6w1sd2bmncbk8f913rm"`},
	"wallet_id":           {"Id of the company's wallet in one currency.", `"wal_06gf58g6w0aychq170kks701q0"`},
	"withdrawal_id":       {"Id of the withdrawal.", `"wdr_06gf58g6w0aychq170kks701q0"`},
	"destination_id":      {"Id of a destination of the company's own.", `"dst_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"transaction_id":      {"Id of the transaction.", `"jrn_06gf58g6w23xf7hs63s9x5j7sc"`},
	"webhook_id":          {"Id of the webhook endpoint.", `"whk_06gf58g6w2messfavdnba8x1fm"`},
	"endpoint_id":         {"Id of the webhook endpoint.", `"whk_06gf58g6w2messfavdnba8x1fm"`},
	"event_id":            {"Id of the event, the same in every delivery of it.", `"evt_06gf58g6w2qkhv375vsd8b2pm4"`},
	"delivery_id":         {"Id of one delivery of an event to one endpoint.", `"dlv_06gf58g6w3294yb3vz4hvc9zng"`},
	"invitation_id":       {"Id of the invitation.", `"ivt_06gf58g6w100qc30sdjrkvr1n4"`},
	"ubo_id":              {"Id of the beneficial owner.", `"ubo_06gf58g6w35wxgp84a80mg25h8"`},
	"object_id":           {"Id of what changed its state: the payroll or one of its payments.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"client_id":           {"Id of the authentication app, as its settings show it.", `"cli_06gf58g6w1rrf1wfby3nckp71r"`},
	"id":                  {"Id of the object.", `"rec_06gf58g6w2tn3zzsvyjtccxcc8"`},
	"external_id":         {"The partner's own reference, unique in the company; up to 255 characters.", `"run-2026-09"`},
	"external_payment_id": {"The partner's own reference of this payment; up to 255 characters.", `"run-2026-09/ada"`},
	"request_id":          {"Id of this request, the same as in the header X-Request-Id and in the service's log.", `"req_5f1d0c6a9b3e4f7a8c2d1e0f9a8b7c6d"`},

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
	"role":                {"What the recipient is to the company.", `"contractor"`},
	"department":          {"Department, as the partner calls it.", `"Engineering"`},
	"vendor_type":         {"Kind of vendor, as the partner calls it; empty for workers.", `""`},
	"recipient_type":      {"Whether the recipient is a person (user) or a company.", `"user"`},
	"created":             {"When it was created, UTC.", ``},
	"created_at":          {"When it was created, UTC.", ``},
	"updated":             {"When it last changed, UTC.", ``},
	"updated_at":          {"When it last changed, UTC.", ``},
	"onboarding_complete": {"Whether the worker has finished signing up.", `true`},
	"has_distributions":   {"Whether the worker has a payment destination and so can be paid.", `true`},
	"website":             {"Web address.", `"https://example.com"`},
	"company_type":        {"What the payer is to the user: employer or client.", `"employer"`},
	"occupation":          {"What the user does for the employer.", `"Engineer"`},
	"product":             {"What the user signs up for.", `"worker"`},
	"kyb_status":          {"State of the company's verification.", `"approved"`},
	"kyc_status":          {"State of the person's verification.", `"approved"`},
	"title":               {"What the text is about, in a few words.", `"Not found"`},

	// Documents.
	"doc_type":                  {"Kind of document; `tax_id` stands for a tax ID.", `"passport"`},
	"category":                  {"Category, as the operation says.", `"front"`},
	"issuing_country":           {"Country that issued the document: 2-letter ISO code in capitals.", `"GB"`},
	"base64_image":              {"The image, JPEG or PNG, in base64; at most 10 MiB decoded and 40 megapixels.", `"iVBORw0KGgo="`},
	"tax_id":                    {"The tax ID.", `"AB123456C"`},
	"tax_id_type":               {"Kind of tax ID, one of those that the document types list.", `"nino"`},
	"tax_id_types":              {"Kinds of tax ID of which one is needed; empty when none is.", `["nino"]`},
	"requires_backside":         {"Whether the back side must be uploaded too.", `false`},
	"requires_selfie":           {"Whether a selfie is needed.", `false`},
	"requires_proof_of_address": {"Whether a proof of address is needed.", `false`},
	"doc_types":                 {"The required document types.", ``},
	"documents":                 {"The documents, the tax ID included when there is one.", ``},

	// Money. Numbers are decimals; read them as decimals.
	"currency":                         {"Currency: its code, one of GET /api/currencies.", `"USD"`},
	"symbol":                           {"Currency: its code, one of GET /api/currencies.", `"BTC"`},
	"amount":                           {"Amount, in whole units of its currency (12.50 is twelve and a half), with at most the currency's decimals.", `12.50`},
	"amount_fiat":                      {"What the payee gets, in whole units of the payroll's `currency` (1250.50 USD), with at most the currency's decimals; more than 0.", `1250.50`},
	"fees":                             {"Fees, in the payroll's currency.", `12.51`},
	"volume_input_in_input_currency":   {"Sum of the payees' amounts without fees, in the payroll's currency.", `1250.50`},
	"volume_output_in_output_currency": {"What arrives, in the output's currency; 0 until it is known.", `0.02501000`},
	"total_input_in_input_currency":    {"Volume and fees together, in the payroll's currency: what the company pays.", `1263.01`},
	"funding_method":                   {"How the payroll is funded: `crypto` by a quote, `bank` by a transfer, `wallet` from the company's balance, or the id of one wallet.", `"crypto"`},
	"funding_currency":                 {"Currency that is paid in.", `"BTC"`},
	"funding_network":                  {"Network on which it is paid in.", `"base"`},
	"funding_networks":                 {"Networks of accounts on which a payroll can be funded in the currency.", `["base"]`},
	"funding_amount":                   {"What must be paid in, in the funding currency.", `0.02526020`},
	"funded_amount":                    {"What has come in and is confirmed, in the funding currency.", `0`},
	"funding_details":                  {"Where the money goes.", ``},
	"funding_state":                    {"How far the funding has come.", `"none"`},
	"denomination_currency":            {"Currency that the price is named in.", `"EUR"`},
	"denomination_amount":              {"The price, in the denomination currency.", `"120.00"`},
	"input_currency":                   {"Currency of the payroll.", `"USD"`},
	"output_currency":                  {"Currency that the destination receives.", `"BTC"`},
	"payroll_invoice_currency":         {"Currency of the payer's invoices.", `"EUR"`},
	"payment_amount":                   {"What the employer pays, in the payer's currency.", `2500`},
	"rate":                             {"Price of one whole unit of the first currency in the other: of a quote, one unit of the funding currency in the payroll's.", `50000.00`},
	"base":                             {"Currency of which one whole unit is priced.", `"BTC"`},
	"minimum":                          {"The smallest amount that can be written in the currency.", `0.01`},
	"decimals":                         {"Decimals that amounts of the currency have at most.", `2`},
	"network":                          {"Network of the address.", `"bitcoin"`},
	"networks":                         {"Networks on which the currency can be sent.", `["bitcoin"]`},
	"address":                          {"Address on the network.", `"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"`},
	"tag":                              {"Destination tag (XRP), empty where there is none.", `""`},
	"transfer_memo":                    {"Memo (XLM), empty where there is none.", `""`},
	"tx_hash":                          {"Id of the transaction on the chain; empty until there is one.", `"4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"`},
	"confirmations":                    {"Blocks that confirm it.", `2`},
	"in_time":                          {"Whether it was first seen while its quote held.", `true`},
	"confirmations_required":           {"Blocks that it needs.", `1`},
	"exception":                        {"What was not as usual about the payment.", `"none"`},
	"reverted":                         {"Whether it was paid until a reorganisation of the chain took the payment back.", `false`},
	"refund_id":                        {"Id of the refund.", `"ref_06gf58g6w17gqvggteagdzt4pm"`},
	"settlement_id":                    {"Id of the settlement.", `"stl_06gf58g6w17gqvggteagdzt4pr"`},
	"refund_url":                       {"The page where the payer names an address.", `"https://pay.example.com/pay/clm_06gf58g6w17gqvggteagdzt4pg/refund/4f1c"`},
	"claims":                           {"What merchant claims have brought that is not settled.", `0`},
	"checkout_url":                     {"The page where the payer pays.", `"https://pay.example.com/pay/clm_06gf58g6w17gqvggteagdzt4pg"`},
	"return_url":                       {"Where the checkout leads back to.", `"https://shop.example/orders/17"`},
	"lightning_invoice":                {"BOLT 11 payment request over the funding amount, valid as long as the quote; empty where Lightning is not offered, or the invoice is not made yet, or something came for the quote.", `""`},
	"payment_uri":                      {"Link by which a wallet pays the quote (BIP 321), over Lightning too where there is an invoice; empty once something came for the quote, or it has ended.", `"bitcoin:bcrt1q9qyqszqgpqyqszqgpqyqszqgpqyqszqgcn2xzm?amount=0.00240000"`},
	"due_amount":                       {"What of the claim nothing seen in time covers, 0 once it is enough; in the denomination currency, as decimal text.", `"0.00"`},
	"seen_amount":                      {"What has come in, confirmed or not, in the funding currency, as decimal text.", `"0.00240000"`},
	"received_amount":                  {"What has come in and is confirmed, in the funding currency, as decimal text.", `"0.00240000"`},
	"refundable_amount":                {"What is the payer's: too much, or given back; in the funding currency, as decimal text.", `"0.00000000"`},
	"refunded_amount":                  {"What the payer has back, in the funding currency, as decimal text.", `"0.00000000"`},
	"tx_hashes":                        {"All transactions that pay it, by first sight.", ``},
	"tolerance_bps":                    {"How much too little still counts as paid, in hundredths of a percent.", `50`},
	"late_policy":                      {"What happens to money that came after its price had ended: manual waits for the merchant; requote takes it at the present rate and refund gives it back, where it is less than 1,000 USD.", `"manual"`},
	"late_grace_seconds":               {"For how long after its end a price still holds.", `0`},
	"settlement_currency":              {"What the merchant gets.", `"BTC"`},
	"settlement_schedule":              {"When the merchant's money is paid out by itself.", `"manual"`},
	"support_email":                    {"Whom payers may write to.", `"help@shop.example"`},
	"settlement_destination_id":        {"The company's destination that settlements go on to.", `""`},
	"origins":                          {"Where the checkout may be embedded and may lead back to: https:// and a host.", `["https://shop.example"]`},
	"first_seen":                       {"When it was first seen, UTC.", ``},
	"balance":                          {"Money that can be used now, in whole units of its currency.", `250.00`},
	"is_premium":                       {"Whether the payment costs the premium fee instead of the normal one, as the company's contract has it.", `false`},
	"payees":                           {"Number of payees.", `2`},
	"description":                      {"Free text for people.", `"September"`},

	// Invoices.
	"number":     {"Number of the invoice, as the document shows it.", `"2026-0017"`},
	"items":      {"The lines.", ``},
	"notes":      {"Text at the foot of the document; it may have several lines.", `"Thank you."`},
	"quantity":   {"How many units.", `8`},
	"unit_price": {"Price of one unit, in whole units of the invoice's currency.", `95.00`},
	"tax_rate":   {"Tax on the line, in percent.", `20`},
	"subtotal":   {"Sum of the lines without tax, in whole units of the invoice's currency.", `760.00`},
	"tax":        {"Tax, in whole units of the invoice's currency.", `152.00`},
	"paid":       {"What has been paid, in whole units of the invoice's currency.", `0.00`},
	"amount_due": {"What is still to be paid, in whole units of the invoice's currency.", `912.00`},
	"issue_date": {"When the invoice is issued, YYYY-MM-DD.", `"2026-09-30"`},
	"due_date":   {"When the invoice is due, YYYY-MM-DD.", `"2026-10-30"`},

	// What a destination needs, and how it changed.
	"key":           {"Name of the member of `distribution_data`.", `"iban"`},
	"label":         {"What a form calls it.", `"IBAN"`},
	"value":         {"The value.", `"checking"`},
	"required":      {"Whether it must be given.", `true`},
	"min_length":    {"Fewest characters.", `15`},
	"max_length":    {"Most characters.", `34`},
	"pattern":       {"Regular expression that the whole text matches; empty when any text will do.", `"^[A-Z0-9]+$"`},
	"example":       {"A value of the right form.", `"DE89370400440532013000"`},
	"options":       {"The values to choose from.", ``},
	"rail":          {"How the money is sent.", `"sepa"`},
	"field":         {"Name of the member that this one depends on.", `"account_type"`},
	"change_id":     {"Id of the change.", `"chg_06gf58g6w3vwannghmvpxav48w"`},
	"action":        {"What was done.", `"created"`},
	"credential_id": {"Id of the credential that did it.", `"key_06gf58g6w2m6f5zq3astchg954"`},
	"dry_run":       {"Whether nothing was kept.", `false`},
	"existing":      {"Rows that were there already.", `0`},
	"failed":        {"Rows that were refused.", `0`},
	"results":       {"What became of each row, in order.", ``},
	"column":        {"Column of the file.", `"country"`},

	// Events and their deliveries.
	"event":       {"Name of the event.", `"payroll.created"`},
	"environment": {"sandbox or production.", `"sandbox"`},
	"api_version": {"Version of the interface that the event speaks.", `"2.0"`},
	"attempts":    {"How often it was tried.", `1`},
	"has_more":    {"Whether more follow.", `false`},
	"headers":     {"The headers, by name.", ``},
	"method":      {"The HTTP method.", `"POST"`},
	"took_ms":     {"How long it took, in milliseconds.", `85`},
	"url":         {"The address.", `"https://example.com/hooks"`},

	// Verification.
	"result":               {"How the verification ends.", ``},
	"kyb_state":            {"State of the company's verification.", `"approved"`},
	"ownership_percentage": {"Share of the company that the person owns, in percent.", `60`},
	"control_person":       {"Whether the person controls the company.", `true`},
	"bytes":                {"Size, in bytes.", `48213`},

	// Bank accounts.
	"funding_account_id":  {"Id of the funding account.", `"fac_06gf58g6w2y1gp9sf76hca02rw"`},
	"accounts":            {"The funding accounts.", ``},
	"account_holder_name": {"Name in which the account is held.", `"Ada Lovelace"`},
	"account_number":      {"Account number; empty where there is an IBAN.", `"000123456789"`},
	"routing_number":      {"Routing number of the bank; empty where there is an IBAN.", `"021000021"`},
	"iban":                {"IBAN; empty where there is none.", `"DE89370400440532013000"`},
	"bic":                 {"BIC of the bank; empty where there is none.", `"COBADEFFXXX"`},
	"bank_name":           {"Name of the bank.", `"Example Bank"`},
	"terms_url":           {"Where the bank's terms can be read.", `"https://example.com/terms"`},
	"accepted_version":    {"Version of the terms that was accepted; empty while none was.", `"2026-01"`},
	"version":             {"Version of the text.", `"2026-01"`},

	// OAuth.
	"access_token":      {"The token; send it as Bearer.", `"stp_sandbox_tok_…"`},
	"token":             {"The token to revoke.", `"stp_sandbox_tok_…"`},
	"token_type":        {"How the token is sent.", `"Bearer"`},
	"grant_type":        {"What is exchanged.", `"authorization_code"`},
	"error":             {"What is wrong, as RFC 6749 names it.", `"invalid_grant"`},
	"error_description": {"What is wrong, for people.", `"The code is unknown, used or expired."`},

	"issuer":                           {"The authorization server (RFC 8414).", `"https://auth.example.com"`},
	"authorization_endpoint":           {"Where users are sent (RFC 8414).", `"https://auth.example.com/authorize"`},
	"token_endpoint":                   {"Where codes are exchanged (RFC 8414).", `"https://api.example.com/oauth2/token"`},
	"revocation_endpoint":              {"Where tokens are revoked (RFC 8414).", `"https://api.example.com/oauth2/revoke"`},
	"service_documentation":            {"Where people read about it (RFC 8414).", `"https://api.example.com/docs"`},
	"scopes_supported":                 {"The scopes (RFC 8414).", `["c_company_detail"]`},
	"response_types_supported":         {"The response types (RFC 8414).", `["code"]`},
	"response_modes_supported":         {"The response modes (RFC 8414).", `["query"]`},
	"grant_types_supported":            {"The grant types (RFC 8414).", `["authorization_code"]`},
	"code_challenge_methods_supported": {"The methods of PKCE (RFC 8414).", `["S256"]`},

	"token_endpoint_auth_methods_supported":          {"How clients show who they are at the token endpoint (RFC 8414).", `["client_secret_basic"]`},
	"revocation_endpoint_auth_methods_supported":     {"How clients show who they are at the revocation endpoint (RFC 8414).", `["client_secret_basic"]`},
	"authorization_response_iss_parameter_supported": {"Whether the answer of an authorization names the issuer (RFC 9207).", `true`},

	// Lists.
	"data":        {"The items of this page.", ``},
	"meta":        {"Where the page stands in its list.", ``},
	"page":        {"Number of the page, from 1.", `1`},
	"per_page":    {"Items on a page: 20 unless asked otherwise, at most 100; more is read as 100.", `20`},
	"total":       {"Number of items on all pages.", `45`},
	"pages":       {"Number of pages.", `3`},
	"has_prev":    {"Whether there is a page before.", `false`},
	"has_next":    {"Whether there is a page after.", `true`},
	"prev_num":    {"Number of the page before; 0 at the first.", `0`},
	"next_num":    {"Number of the page after; 0 at the last.", `2`},
	"search":      {"Part of a name or email address, in any case.", `"ada"`},
	"sort_by":     {"What the list is sorted by.", `"name"`},
	"sort_by_dir": {"Ascending or descending.", `"asc"`},
	"from":        {"Created at this time or later: RFC 3339, or a date for its start in UTC.", `"2026-09-01T00:00:00Z"`},
	"to":          {"Created before this time: RFC 3339, or a date for its start in UTC.", `"2026-10-01T00:00:00Z"`},

	// States and time.
	"status":     {"State of the object.", `"active"`},
	"reason":     {"Why it is in this state; empty where the state says it all.", `""`},
	"valid_from": {"When the price became firm, UTC.", ``},
	"valid_to":   {"When the price ends, UTC.", ``},
	"at":         {"When it happened, UTC.", ``},
	"received":   {"Whether the money for it has come in.", `true`},
	"released":   {"Whether it has been sent on its way.", `false`},
	"fulfilled":  {"Whether all of it has arrived.", `false`},
	"success":    {"true: it was done.", `true`},
	"deleted":    {"true: it is gone.", `true`},

	"idempotency_replayed": {"Whether this is the stored answer of an earlier request with the same Idempotency-Key.", `false`},

	// Parts of a payroll.
	"to_pay":           {"Who gets how much: 1 to 10,000 payees.", ``},
	"quote":            {"The firm price in the funding currency, for funding by crypto.", ``},
	"quotes":           {"The quotes that are in force now.", ``},
	"payments":         {"The payments, one for each payee.", ``},
	"outputs":          {"What goes to each destination of the payee.", ``},
	"deposits":         {"Money that came in.", ``},
	"approval":         {"How far its approval by members has come.", ``},
	"hold_reason":      {"Why it is on hold; empty when it is not.", `""`},
	"approvals_needed": {"Members who must approve it.", `0`},
	"needed":           {"Members who must approve it.", `1`},
	"given":            {"Members who approved it.", `0`},
	"timeline":         {"What happened, oldest first.", ``},
	"blockers":         {"What stands in the way; empty when nothing does.", ``},
	"companies":        {"The companies.", ``},

	// Messages and notes.
	"mail_id":     {"Id of the message.", `"mail_06gf58g6w0gq4psw5rnxh0grpc"`},
	"subject":     {"Subject line.", `"You are invited"`},
	"template":    {"Which message it is.", `"invitation"`},
	"text":        {"The message as plain text.", `"Hello"`},
	"html":        {"The message as HTML.", `"<p>Hello</p>"`},
	"sent_at":     {"When it was sent, UTC.", ``},
	"expires_at":  {"When it ends, UTC.", ``},
	"source_id":   {"Id of the object that moved the money.", `"prl_06gf58g6w2pq0pzjvm15cwn7n4"`},
	"source_type": {"Kind of the object that moved the money.", `"payroll"`},

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
	"distribution_data": {"The destination itself: the members that GET /api/user/distribution/fields lists for the currency and country; for crypto `address`, and `network`, `tag` or `transfer_memo` where the currency needs them.", `{"address":"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"}`},
	"allocation":        {"Share of each payment that goes to this destination, in whole percent; a payee's allocations total 100.", `100`},
	"allocations":       {"The new shares, 1 to 3, totalling 100. A destination that is not named gets 0.", ``},
	"payable":           {"Whether this service pays such a destination out. Where it is false, a destination is checked and kept all the same, and a payroll that names a payee while one has an allocation is refused with `currency_not_supported`.", `true`},
	"correction_id":     {"Id of the correction that the bank asks for.", `"cor_06gf58g6w1zrmrgar2qn4p0wcw"`},
	"required_fields":   {"The members that `distribution_data` needs, in the order in which a form shows them.", `[]`},

	// Errors.
	"type":    {"Its kind.", ``},
	"code":    {"What is wrong, as a word that programs can compare.", `"not_found"`},
	"detail":  {"What is wrong, for people.", `"There is no such object, or it is not yours."`},
	"message": {"What is wrong and what would be right, for people.", `"The member country is required."`},
	"pointer": {"Where: a JSON pointer into the body, or the name of the parameter or header.", `"/country"`},
	"in":      {"Which part of the request the pointer points into.", `"body"`},
	"errors":  {"All problems of the request, in order, at most 100. `code` and `detail` repeat the first. Empty when no place in the request is at fault.", ``},

	// The sandbox.
	"kind":                   {"Which kind.", ``},
	"sat_per_vbyte":          {"The fee that the chain asks for, in satoshis per virtual byte.", `200`},
	"previous_sat_per_vbyte": {"What it asked for before.", `2`},
	"advance_seconds":        {"How far the service's clock moves forward, in seconds.", `60`},
	"now":                    {"The service's time now, UTC.", ``},
}

// exampleTime is the instant of examples.
const exampleTime = "2026-09-30T14:05:00Z"

// describeMembers gives each member of a schema its words: what its tags have not said already.
func describeMembers(s *huma.Schema, request bool) {
	for name, member := range s.Properties {
		describeMember(name, member, request && !isRequired(s, name))
	}
}

// ownCompany is what an optional company_id of a request means when it is left out.
const ownCompany = " Left out, it is the company that the credential acts for; no other can be named."

func describeMember(name string, s *huma.Schema, optional bool) {
	w := words[name]
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

// fits says whether an example of a word is one for this schema: the same word may be a number here and text there.
func fits(s *huma.Schema, example string) bool {
	kind := map[byte]string{'"': huma.TypeString, '{': huma.TypeObject, '[': huma.TypeArray, 't': huma.TypeBoolean, 'f': huma.TypeBoolean}[example[0]]
	if kind == "" {
		return s.Type == huma.TypeNumber || s.Type == huma.TypeInteger
	}
	if s.Type != kind {
		return false
	}
	if kind != huma.TypeString {
		return kind != huma.TypeArray || example == "[]" || s.Items != nil && s.Items.Type == huma.TypeString && len(s.Items.Enum) == 0
	}
	var text string
	return json.Unmarshal([]byte(example), &text) == nil && checkString(s, nil, text) == "" && s.Format != "date-time"
}

// exampleOf makes an example of a schema out of those of its members. A request's shows what must be sent and what has an
// example of its own; an answer's shows everything.
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
		return s.Enum[1] // it says more than that there is none
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
