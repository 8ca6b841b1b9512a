package httpapi

// typeFieldDocs describes fields and parameters of particular types, by type and name. It overrides fieldDocs.
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
		"period_start": "First day of the pay period, which receipts name. Set it together with `period_end`. It does not " +
			"change when anybody is paid. Default: none.",
		"period_end": "Last day of the pay period.",
	},
	"EarningSummary": {
		"period_start": "First day of the pay period; empty for none.",
		"period_end":   "Last day of the pay period; empty for none.",
		"reference":    "External ID of the payroll, or ID of the invoice that the income pays; may be empty.",
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
		"to_pay":       "Payees and amounts, which replace all others. Default: they stay.",
		"external_id":  "Your own reference of the payroll, unique per company. Default: it stays.",
		"period_start": "First day of the pay period, together with `period_end`; both empty for none. Default: it stays.",
		"period_end":   "Last day of the pay period.",
		"document_ids": "Of a payroll that pays vendors against documents: IDs of the documents, one for each item of " +
			"to_pay in its order. Default: each payment keeps the document of the vendor's payment with the same invoice " +
			"number, or else another one of the vendor.",
	},
	"PayrollSummary": {
		"pay_date":     "Day on which the payees are paid; empty if they are paid as soon as the payroll is funded.",
		"period_start": "First day of the pay period; empty for none.",
		"period_end":   "Last day of the pay period; empty for none.",
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
