package httpapi

import "github.com/stipend/stipend/internal/identity"

// routes lists every operation of the API. A path that is not listed gets 404, and New refuses a route without a scope.
var routes = []route{
	{
		method: "GET", path: "/api/company", name: "get-company",
		scope: identity.CompanyDetail, kind: read, bodyOptional: true, handler: handle(getCompany),
		summary: "Get the company that the credential acts for",
	},

	{
		method: "GET", path: "/api/events", name: "list-events",
		scope: identity.CompanyDetail, kind: read, handler: handle(listEvents),
		summary: "List events of the last 30 days",
	},
	{
		method: "POST", path: "/api/webhooks", name: "create-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: withSecret(handle(createWebhook)),
		summary: "Create a webhook endpoint; the response shows its signing secret once",
		errors:  []string{"invalid_state", "url_not_allowed"},
	},
	{
		method: "GET", path: "/api/webhooks", name: "list-webhooks",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWebhooks),
		summary: "List the company's webhook endpoints",
	},
	{
		method: "GET", path: "/api/webhooks/{webhook_id}", name: "get-webhook",
		scope: identity.CompanyDetail, kind: read, handler: handle(getWebhook),
		summary: "Get a webhook endpoint",
	},
	{
		method: "PATCH", path: "/api/webhooks/{webhook_id}", name: "update-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(updateWebhook),
		summary: "Update a webhook endpoint's URL, description or event types",
		errors:  []string{"url_not_allowed"},
	},
	{
		method: "DELETE", path: "/api/webhooks/{webhook_id}", name: "delete-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(deleteWebhook),
		summary: "Delete a webhook endpoint and its deliveries",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/rotate", name: "rotate-webhook-secret",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: withSecret(handle(rotateWebhook)),
		summary: "Rotate a webhook endpoint's secret; the old one also signs during an overlap",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/test", name: "test-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(testWebhook),
		summary: "Send a webhook.test event to a webhook endpoint",
		errors:  []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/disable", name: "disable-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(disableWebhook),
		summary: "Disable a webhook endpoint and cancel its pending deliveries",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/enable", name: "enable-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(enableWebhook),
		summary: "Enable a webhook endpoint",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/redeliver", name: "redeliver-webhook-range",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(redeliverRange),
		summary: "Redeliver a range of events",
		errors:  []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/webhooks/{webhook_id}/deliveries", name: "list-webhook-deliveries",
		scope: identity.CompanyDetail, kind: read, handler: handle(listDeliveries),
		summary: "List a webhook endpoint's past and pending deliveries, newest first",
	},
	{
		method: "GET", path: "/api/webhooks/{webhook_id}/deliveries/{event_id}", name: "get-webhook-delivery",
		scope: identity.CompanyDetail, kind: read, handler: handle(getDelivery),
		summary: "Get a delivery with its request, attempts and responses",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/deliveries/{event_id}/redeliver", name: "redeliver-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(redeliverOne),
		summary: "Redeliver one event",
		errors:  []string{"invalid_state"},
	},

	{
		method: "POST", path: "/api/company/payroll/create", name: "create-payroll",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: payrollLimit, keyRequired: true,
		handler: handle(createPayroll),
		summary: "Create a payroll paying company workers",
		description: "Pays each payee's destinations once the payroll is funded. With `funding_method` `crypto` the " +
			"response contains a firm quote, valid for 30 minutes; with `bank`, the amount to transfer in the " +
			"payroll's own currency and the reference to use; with `wallet`, the balance pays at once. Bank " +
			"and wallet funding have no quote. Either the payroll is valid for every payee or nothing is " +
			"created.",
		example: examplePayroll,
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "company_frozen",
			"country_not_supported", "currency_not_supported", "external_id_conflict", "insufficient_balance",
			"invalid_state", "kyc_required", "no_distribution", "rate_unavailable", "recipient_inactive",
		},
	},
	{
		method: "POST", path: "/api/company/payroll/quote/refresh", name: "refresh-payroll-quote",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(refreshQuote),
		summary: "Refresh the expired crypto funding quotes of a payroll",
		description: "Returns a quote that is still active unchanged. Replaces an expired one at the current rate, for " +
			"the amount still due, at the same address.",
		errors: []string{"amount_too_large", "invalid_state", "quote_locked", "rate_unavailable"},
	},
	{
		method: "POST", path: "/api/company/payroll/preview", name: "preview-payroll",
		scope: identity.CompanyWorkersPay, kind: read, bodyLimit: payrollLimit, handler: handle(previewPayroll),
		summary: "Preview a payroll without creating it",
		description: "Takes the body of create, applies every rule and returns all amounts. What would prevent " +
			"creation is listed in `blockers`.",
		example: examplePayroll,
	},
	{
		method: "POST", path: "/api/company/payroll/cancel", name: "cancel-payroll",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(cancelPayroll),
		summary: "Cancel a payroll before any payment is released",
		description: "Possible until a payment is released. Funds already received are credited to the company's " +
			"balance.",
		errors: []string{"already_processing", "invalid_state"},
	},
	{
		method: "GET", path: "/api/company/payrolls", name: "list-payrolls",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(listPayrolls),
		summary: "List the company's payrolls, newest first",
	},
	{
		method: "GET", path: "/api/company/payrolls/{payroll_id}", name: "get-payroll",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(getPayroll),
		summary: "Get a payroll with its payments, outputs, deposits and timeline",
	},

	{
		method: "POST", path: "/api/user/create", name: "create-user",
		scope: identity.UserCreate, kind: write, handler: handle(createUser),
		summary: "Create a user who is a worker of the company",
		errors:  []string{"company_frozen", "not_found", "user_exists"},
	},
	{
		method: "POST", path: "/api/user/update", name: "update-user",
		scope: identity.UserUpdate, kind: write, handler: handle(updateUser),
		summary: "Partially update a user's profile",
		errors:  []string{"company_frozen", "invalid_state", "not_found", "user_exists"},
	},
	{
		method: "GET", path: "/api/user/detail", name: "get-user",
		scope: identity.UserDetail, kind: read, handler: handle(getUser),
		summary: "Get a user's profile",
		errors:  []string{"missing_field", "not_found"},
	},

	{
		method: "POST", path: "/api/user/distribution", name: "create-user-distribution",
		scope: identity.UserDistributionCreate, kind: write, handler: handle(createUserDistribution),
		summary: "Create a payment destination for a user",
		errors: []string{
			"address_invalid", "company_frozen", "currency_not_supported", "distribution_limit", "not_found",
			"profile_incomplete",
		},
	},
	{
		method: "POST", path: "/api/user/distribution/update", name: "update-user-distribution",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(updateUserDistribution),
		summary: "Replace the details of a user's destination",
		errors:  []string{"address_invalid", "company_frozen", "currency_not_supported", "not_found", "profile_incomplete"},
	},
	{
		method: "POST", path: "/api/user/distribution/correction", name: "correct-user-distribution",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(correctUserDistribution),
		summary: "Correct a user's destination as its bank requested",
		errors:  []string{"company_frozen", "invalid_state", "not_found"},
	},
	{
		method: "DELETE", path: "/api/user/distribution", name: "delete-user-distribution",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(deleteUserDistribution),
		summary: "Delete a user's destination; its allocation must be 0",
		errors:  []string{"allocation_not_zero", "company_frozen", "not_found"},
	},
	{
		method: "PATCH", path: "/api/user/distribution/allocations", name: "set-user-allocations",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(setUserAllocations),
		summary: "Set how a user's payments are split between destinations",
		errors:  []string{"allocation_invalid", "allocation_total", "company_frozen", "distribution_limit", "not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/list", name: "list-user-distributions",
		scope: identity.UserDistributionList, kind: read, handler: handle(listUserDistributions),
		summary: "List a user's destinations",
		errors:  []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/detail", name: "get-user-distribution",
		scope: identity.UserDistributionDetail, kind: read, handler: handle(getUserDistribution),
		summary: "Get a destination of a user",
		errors:  []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/history", name: "list-user-distribution-changes",
		scope: identity.UserDistributionList, kind: read, handler: handle(listUserDistributionChanges),
		summary: "List the changes to a user's destinations and who made them",
		errors:  []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/fields", name: "get-user-distribution-fields",
		scope: identity.UserDistributionList, kind: read, handler: handle(getUserDistributionFields),
		summary: "Get the fields that a destination in a currency requires in the user's country",
		errors:  []string{"currency_not_supported", "missing_field", "not_found", "profile_incomplete"},
	},

	{
		method: "GET", path: "/api/company/workers", name: "list-workers",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(listWorkers),
		summary: "List the company's workers",
	},
	{
		method: "POST", path: "/api/company/worker/invite", name: "invite-worker",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(inviteWorker),
		summary: "Invite a person to become a worker",
		errors:  []string{"company_frozen", "invalid_state", "resend_limit_reached"},
	},
	{
		method: "POST", path: "/api/company/worker/invite/resend", name: "resend-invitation",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(resendInvitation),
		summary: "Resend an invitation, at most 3 times",
		errors:  []string{"company_frozen", "invalid_state", "resend_limit_reached"},
	},
	{
		method: "POST", path: "/api/company/worker/invite/revoke", name: "revoke-invitation",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(revokeInvitation),
		summary: "Revoke an open invitation",
		errors:  []string{"company_frozen", "invalid_state"},
	},
	{
		method: "GET", path: "/api/company/worker/invitations", name: "list-invitations",
		scope: identity.CompanyWorkerInvitationsList, kind: read, handler: handle(listInvitations),
		summary: "List the company's invitations, newest first",
	},
	{
		method: "GET", path: "/api/company/recipients", name: "list-recipients",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(listRecipients),
		summary:     "List the company's recipients: workers and vendors",
		description: "Filters combine. Sorted by creation time, newest first, unless `sort_by` says otherwise.",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/create", name: "create-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: createdRecipient(),
		summary: "Create and link a recipient without a login",
		description: "A recipient needs no login: the company manages it. Required: a country, and either first_name " +
			"and last_name, or name.",
		example: `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","country":"GB",` +
			`"role":"contractor","external_id":"worker-17"}`,
		errors: []string{"company_frozen", "external_id_conflict", "missing_field"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}", name: "get-recipient",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(getRecipient),
		summary: "Get a recipient",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/import", name: "import-recipients",
		scope: identity.CompanyWorkersInvite, kind: write, bodyLimit: importLimit, handler: handle(importRecipients),
		summary: "Import recipients from a CSV file",
		errors:  []string{"company_frozen"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/export", name: "export-recipients",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(exportRecipients),
		summary: "Export the recipients that match a list's filters as a CSV file",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/update", name: "update-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(updateRecipient),
		summary: "Partially update a recipient",
		errors:  []string{"company_frozen", "external_id_conflict", "missing_field"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/deactivate",
		name:  "deactivate-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(deactivateRecipient),
		summary: "Deactivate a recipient, who can then not be paid",
		errors:  []string{"company_frozen"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/reactivate",
		name:  "reactivate-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(reactivateRecipient),
		summary: "Reactivate a recipient",
		errors:  []string{"company_frozen", "invalid_state"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution",
		name:  "create-recipient-distribution",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(createDistribution),
		summary: "Create a payment destination for a recipient",
		description: "The first destination gets the whole allocation, later ones 0 until the allocations are set. A " +
			"recipient has at most 3.",
		example: `{"symbol":"BTC","distribution_data":{"address":"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"}}`,
		errors: []string{
			"address_invalid", "company_frozen", "currency_not_supported", "distribution_limit",
			"profile_incomplete",
		},
	},
	{
		method: "DELETE", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution",
		name:  "delete-recipient-distribution",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(deleteDistribution),
		summary:     "Delete a recipient's destination; its allocation must be 0",
		description: "The destination's allocation must be 0.",
		errors:      []string{"allocation_not_zero", "company_frozen"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution",
		name:  "list-recipient-distributions",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(listDistributions),
		summary: "List a recipient's destinations",
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/detail",
		name:  "get-recipient-distribution",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(getDistribution),
		summary: "Get a destination of a recipient",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/update",
		name:  "update-recipient-distribution",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(updateDistribution),
		summary: "Replace the details of a recipient's destination",
		errors:  []string{"address_invalid", "company_frozen", "currency_not_supported", "profile_incomplete"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/correction",
		name:  "correct-recipient-distribution",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(correctDistribution),
		summary: "Correct a recipient's destination as its bank requested",
		errors:  []string{"company_frozen", "invalid_state"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/fields",
		name:  "get-recipient-distribution-fields",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(getDistributionFields),
		summary: "Get the fields that a destination in a currency requires in the recipient's country",
		errors:  []string{"currency_not_supported", "missing_field", "profile_incomplete"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/history",
		name:  "list-recipient-distribution-changes",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(listDistributionChanges),
		summary: "List the changes to a recipient's destinations and who made them",
	},
	{
		method: "PATCH", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/allocations",
		name:  "set-recipient-allocations",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(setAllocations),
		summary: "Set how a recipient's payments are split between destinations",
		errors:  []string{"allocation_invalid", "allocation_total", "company_frozen", "distribution_limit"},
	},

	{
		method: "POST", path: "/api/user/payer/create", name: "create-user-payer",
		scope: identity.UserPayerCreate, kind: write, handler: handle(createPayer),
		summary: "Create an external payer",
		errors:  []string{"amount_not_positive", "amount_precision", "company_frozen", "not_found"},
	},
	{
		method: "POST", path: "/api/user/payer/update", name: "update-user-payer",
		scope: identity.UserPayerUpdate, kind: write, handler: handle(updatePayer),
		summary: "Update an external payer",
		errors:  []string{"amount_not_positive", "amount_precision", "company_frozen", "not_found", "payer_deleted"},
	},
	{
		method: "GET", path: "/api/user/payer/detail", name: "get-user-payer",
		scope: identity.UserPayerDetail, kind: read, handler: handle(getPayer),
		summary: "Get an external payer",
		errors:  []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/payer/list", name: "list-user-payers",
		scope: identity.UserPayerList, kind: read, handler: handle(listPayers),
		summary: "List external payers, newest first",
		errors:  []string{"not_found"},
	},
	{
		method: "POST", path: "/api/user/payer/delete", name: "delete-user-payer",
		scope: identity.UserPayerUpdate, kind: write, handler: handle(deletePayer),
		summary: "Delete an external payer; its past payments keep its name",
		errors:  []string{"company_frozen", "invalid_state", "not_found"},
	},

	{
		method: "POST", path: "/api/user/invoice/create", name: "create-user-invoice",
		scope: identity.UserInvoiceCreate, kind: write, handler: handle(createInvoice),
		summary: "Create an invoice to a payer",
		errors: []string{
			"amount_not_positive", "amount_precision", "company_frozen", "currency_not_supported",
			"external_id_conflict", "not_found", "payer_deleted",
		},
	},
	{
		method: "POST", path: "/api/user/invoice/send", name: "send-user-invoice",
		scope: identity.UserInvoiceCreate, kind: write, handler: handle(sendInvoice),
		summary: "Send a draft invoice",
		errors:  []string{"company_frozen", "invalid_state", "not_found", "payer_deleted"},
	},
	{
		method: "GET", path: "/api/user/invoice/detail", name: "get-user-invoice",
		scope: identity.UserInvoiceDetail, kind: read, handler: handle(getInvoice),
		summary: "Get an invoice with its lines",
		errors:  []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/invoice/list", name: "list-user-invoices",
		scope: identity.UserInvoiceList, kind: read, handler: handle(listInvoices),
		summary: "List the user's invoices, newest first",
		errors:  []string{"missing_field", "not_found"},
	},
	{
		method: "POST", path: "/api/user/invoice/delete", name: "delete-user-invoice",
		scope: identity.UserInvoiceDelete, kind: write, handler: handle(deleteInvoice),
		summary: "Void an invoice that is not being paid",
		errors:  []string{"company_frozen", "invalid_state", "not_found"},
	},

	{
		method: "POST", path: "/api/user/funding/account", name: "open-funding-account",
		scope: identity.UserBankDetails, kind: write, handler: handle(openFundingAccount),
		summary: "Request a virtual bank account, or accept its terms",
		errors:  []string{"company_frozen", "invalid_state", "kyc_required", "not_found"},
	},
	{
		method: "GET", path: "/api/user/funding/account", name: "list-funding-accounts",
		scope: identity.UserBankDetails, kind: read, handler: handle(listFundingAccounts),
		summary: "List funding accounts with their account numbers and balances",
		errors:  []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/funding/account/tos", name: "get-funding-terms",
		scope: identity.UserBankDetails, kind: read, handler: handle(getFundingTerms),
		summary: "Get the terms of funding accounts and whether they are accepted",
		errors:  []string{"not_found"},
	},

	{
		method: "POST", path: "/api/vendor/payroll/quotes", name: "quote-vendor-payroll",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(quoteVendors),
		summary: "Quote the cost of paying vendors without paying them",
	},
	{
		method: "POST", path: "/api/vendor/payroll/documents", name: "upload-vendor-document",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: imageLimit,
		handler: withPreprocess(readVendorDocument, handle(uploadVendorDocument)),
		summary: "Upload a vendor's invoice",
		errors:  []string{"company_frozen", "unsupported_image"},
	},
	{
		method: "POST", path: "/api/vendor/payroll", name: "create-vendor-payroll",
		scope: identity.CompanyWorkersPay, kind: write, keyRequired: true, handler: handle(createVendorPayroll),
		summary: "Pay vendors, each against an uploaded invoice",
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "company_frozen",
			"country_not_supported", "currency_not_supported", "external_id_conflict", "insufficient_balance",
			"invalid_state", "kyc_required", "no_distribution", "rate_unavailable", "recipient_inactive",
		},
	},

	{
		method: "POST", path: "/api/merchant/claim/create", name: "create-claim",
		scope: identity.CompanyWorkersPay, kind: write, handler: withPrefetch(claimKeys, handle(createClaim)),
		summary: "Create a claim with its first quote",
		description: "The quote is valid for 15 minutes. Its address belongs to this claim permanently. Show the payer " +
			"the `checkout_url`, or the address and the amount.",
		example: `{"payer_id":"customer-4711","amount":120.00,"denomination_currency":"EUR",` +
			`"funding_currency":"BTC","description":"Order 17"}`,
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "company_frozen",
			"currency_not_supported", "payer_deleted", "rate_unavailable", "redirect_uri_invalid",
		},
	},
	{
		method: "POST", path: "/api/merchant/claim/quote/refresh", name: "refresh-claim-quote",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(refreshClaimQuote),
		summary: "Refresh the expired quote of a claim",
		description: "Returns a quote that is still active unchanged. Replaces an expired one at the current rate, for " +
			"the amount still due, at the same address. A late deposit is first counted at the current rate; " +
			"if it covers the claim, the claim is paid and its last quote is returned.",
		errors: []string{"amount_too_large", "invalid_state", "quote_locked", "rate_unavailable"},
	},
	{
		method: "GET", path: "/api/merchant/claim/status", name: "get-claim-status",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(getClaimStatus),
		summary: "Get a claim's state and the deposits it received",
	},
	{
		method: "POST", path: "/api/merchant/claim/cancel", name: "cancel-claim",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(cancelClaim),
		summary: "Cancel a claim that has received no deposit",
		description: "Possible until a deposit arrives. The address stays monitored, and later deposits are refundable " +
			"to the payer.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/merchant/claim/refund", name: "refund-claim",
		scope: identity.CompanyWorkersPay, kind: write, handler: withSecret(handle(refundClaim)),
		summary: "Offer the payer of a claim a refund; the response shows the link once",
		description: "Offers the payer the excess of an overpayment. For a claim that was not paid in time or in full, " +
			"offers the whole amount received. Give the payer the `refund_url`, where they enter an address, " +
			"once. A new offer replaces one that was not accepted. An offer expires after 90 days; the amount " +
			"remains payable to the payer.",
		errors: []string{"already_processing", "company_frozen", "invalid_state"},
	},
	{
		method: "POST", path: "/api/merchant/settlements", name: "settle-claims",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(settleClaims),
		summary: "Settle the proceeds of claims to the company's balance",
		description: "Credits the proceeds to the company's balance at once, where they can fund payrolls. If the " +
			"merchant settings name a destination (`settlement_destination_id`) in that currency, a " +
			"withdrawal sends them there, subject to the cool-down, the company's limit and every other rule " +
			"for withdrawals.",
		example: `{"currency":"BTC"}`,
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "company_frozen",
			"currency_not_supported", "destination_cooling", "insufficient_balance", "kyc_required",
		},
	},
	{
		method: "GET", path: "/api/merchant/settlements", name: "list-settlements",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(listSettlements),
		summary: "List the company's settlements, newest first",
	},
	{
		method: "GET", path: "/api/merchant/claims", name: "list-claims",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(listClaims),
		summary: "List the company's claims, newest first",
	},
	{
		method: "GET", path: "/api/merchant/settings", name: "get-merchant-settings",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(getMerchantSettings),
		summary: "Get the company's merchant settings",
	},
	{
		method: "POST", path: "/api/merchant/settings", name: "change-merchant-settings",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(changeMerchantSettings),
		summary:     "Change the company's merchant settings",
		description: "Absent members stay unchanged. A change applies to claims created after it.",
		example:     `{"tolerance_bps":50,"confirmations":1,"late_policy":"requote"}`,
		errors:      []string{"company_frozen"},
	},

	{
		method: "POST", path: "/api/wallets/request", name: "request-wallet",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(requestWallet),
		summary: "Request a wallet in a currency",
		errors:  []string{"company_frozen", "currency_not_supported"},
	},
	{
		method: "GET", path: "/api/wallets", name: "list-wallets",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWallets),
		summary: "List the company's balance in each currency",
	},
	{
		method: "GET", path: "/api/wallets/deposits", name: "list-wallet-deposits",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWalletDeposits),
		summary: "List crypto deposits to the company's wallets, newest first",
	},
	{
		method: "GET", path: "/api/wallets/transactions", name: "list-wallet-transactions",
		scope: identity.CompanyDetail, kind: read, handler: handle(listTransactions),
		summary: "List balance transactions, each with the balance after it",
		errors:  []string{"currency_not_supported"},
	},
	{
		method: "GET", path: "/api/wallets/statement", name: "get-wallet-statement",
		scope: identity.CompanyDetail, kind: read, handler: handle(getWalletStatement),
		summary: "Get a statement of one currency: opening balance, transactions, closing balance",
		errors:  []string{"currency_not_supported"},
	},
	{
		method: "GET", path: "/api/wallets/destinations", name: "list-withdrawal-destinations",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWithdrawalDestinations),
		summary: "List the company's withdrawal destinations, which are managed on the page /wallets/withdrawals",
	},
	{
		method: "POST", path: "/api/wallets/withdraw", name: "withdraw",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, keyRequired: true,
		handler: handle(withdraw),
		summary: "Withdraw from the balance to one of the company's destinations",
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "company_frozen",
			"destination_cooling", "external_id_conflict", "insufficient_balance", "kyc_required",
		},
	},
	{
		method: "POST", path: "/api/wallets/withdrawals/cancel", name: "cancel-withdrawal",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(cancelWithdrawal),
		summary: "Cancel a withdrawal that has not been sent",
		errors:  []string{"already_processing", "invalid_state"},
	},
	{
		method: "GET", path: "/api/wallets/withdrawals", name: "list-withdrawals",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWithdrawals),
		summary: "List the company's withdrawals, newest first",
	},
	{
		method: "GET", path: "/api/wallets/withdrawals/{withdrawal_id}", name: "get-withdrawal",
		scope: identity.CompanyDetail, kind: read, handler: handle(getWithdrawal),
		summary: "Get a withdrawal",
	},

	{
		method: "GET", path: "/api/user/document/types", name: "list-document-types",
		scope: identity.UserDocumentList, kind: read, handler: handle(listDocumentTypes),
		summary: "Required document types by the user's country and payer currency",
		errors:  []string{"country_not_supported", "missing_field", "not_found", "payer_deleted", "profile_incomplete"},
	},
	{
		method: "POST", path: "/api/user/document/upload", name: "upload-document",
		scope: identity.UserUpdateDoc, kind: write, bodyLimit: imageLimit,
		handler: withPreprocess(readUpload, handle(uploadDocument)),
		summary: "Upload a document or set a tax ID",
		example: `{"user_id":"usr_06gf58g6w28xgvfnbjvbc8gg88","doc_type":"passport","category":"front",` +
			`"issuing_country":"GB","base64_image":"iVBORw0KGgo="}`,
		errors: []string{
			"category_not_allowed", "company_frozen", "country_not_supported", "document_limit",
			"invalid_state", "not_found", "tax_id_invalid", "unsupported_image",
		},
	},
	{
		method: "GET", path: "/api/user/document/list", name: "list-documents",
		scope: identity.UserDocumentList, kind: read, handler: handle(listDocuments),
		summary: "List the documents uploaded for a user, including the tax ID",
		errors:  []string{"missing_field", "not_found"},
	},

	{
		method: "POST", path: "/api/user/kyc-initiate", name: "initiate-kyc",
		scope: identity.UserKYCInitiate, kind: write, handler: handle(initiateKYC),
		summary: "Start the verification of a user",
		errors: []string{
			"already_processing", "company_frozen", "country_not_supported", "documents_incomplete",
			"invalid_state", "missing_field", "not_found", "profile_incomplete",
		},
	},

	{
		method: "POST", path: "/api/companies", name: "onboard-company",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(onboardCompany),
		summary: "Submit the company details that its verification requires",
		errors:  []string{"already_processing", "company_frozen", "invalid_state"},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/ubo", name: "add-ubo",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(addOwner),
		summary: "Add a beneficial owner or control person",
		errors:  []string{"already_processing", "company_frozen", "invalid_state"},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/ubo/kyc", name: "initiate-ubo-kyc",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(initiateOwnerKYC),
		summary: "Start the verification of an owner",
		errors:  []string{"already_processing", "company_frozen", "documents_incomplete", "invalid_state"},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/documents", name: "upload-company-document",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, bodyLimit: imageLimit,
		handler: withPreprocess(readCompanyUpload, handle(uploadCompanyDocument)),
		summary: "Upload a document of the company or of an owner",
		example: `{"doc_type":"certificate_of_incorporation","issuing_country":"GB","base64_image":"iVBORw0KGgo="}`,
		errors: []string{
			"category_not_allowed", "company_frozen", "country_not_supported", "document_limit",
			"invalid_state", "tax_id_invalid", "unsupported_image",
		},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/kyb", name: "initiate-kyb",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, bodyOptional: true,
		handler: handle(initiateKYB),
		summary: "Start the verification of the company",
		errors: []string{
			"already_processing", "company_frozen", "documents_incomplete", "invalid_state",
			"profile_incomplete",
		},
	},

	{
		method: "GET", path: "/api/rates", name: "list-rates",
		scope: public, kind: read, handler: handle(listRates),
		summary: "List current exchange rates",
	},
	{
		method: "GET", path: "/api/currencies", name: "list-currencies",
		scope: public, kind: read, handler: handle(listCurrencies),
		summary: "List supported currencies",
	},

	{
		method: "POST", path: "/api/sandbox/deposit", name: "sandbox-deposit",
		scope: anyScope, sandboxOnly: true, kind: direct, handler: handle(depositInSandbox),
		summary: "Pay a payroll or a claim on the simulated chain",
		example: `{"payroll_id":"prl_06gf58g6w2pq0pzjvm15cwn7n4","kind":"exact"}`,
		errors:  []string{"amount_not_positive", "amount_precision", "invalid_state"},
	},
	{
		method: "POST", path: "/api/sandbox/bank-deposit", name: "sandbox-bank-deposit",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(bankDeposit),
		summary: "Simulate a bank transfer to a funding account",
		example: `{"funding_account_id":"fac_06gf58g6w2y1gp9sf76hca02rw","amount":100.00,"currency":"EUR",` +
			`"reference":"TRF-2026-0917"}`,
		errors: []string{"amount_not_positive", "amount_precision", "currency_not_supported", "invalid_state", "not_found"},
	},
	{
		method: "POST", path: "/api/sandbox/clock", name: "sandbox-clock",
		scope: anyScope, sandboxOnly: true, kind: direct, handler: handle(advanceClock),
		summary: "Advance the service's clock",
	},
	{
		method: "POST", path: "/api/sandbox/fee-rate", name: "sandbox-fee-rate",
		scope: anyScope, sandboxOnly: true, kind: direct, handler: handle(setFeeRate),
		summary: "Set the fee rate of the simulated chain; payouts wait while it is above 150",
		errors:  []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/sandbox/payout-failure", name: "sandbox-payout-failure",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(failPayout),
		summary: "Make the payouts of a payment fail",
		errors:  []string{"already_processing"},
	},
	{
		method: "POST", path: "/api/sandbox/bank-return", name: "sandbox-bank-return",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(returnByBank),
		summary: "Make the bank return the payouts of a payment",
		errors:  []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/sandbox/mails", name: "sandbox-mails",
		scope: anyScope, sandboxOnly: true, kind: read, handler: handle(listKeptMails),
		summary: "List captured mails, newest first",
	},
	{
		method: "POST", path: "/api/sandbox/kyc", name: "sandbox-kyc",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(decideKYC),
		summary: "Decide the verification of a user",
		errors:  []string{"invalid_state", "not_found"},
	},
	{
		method: "POST", path: "/api/sandbox/kyb", name: "sandbox-kyb",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(decideKYB),
		summary: "Decide the verification of the company or of an owner",
		errors:  []string{"invalid_state"},
	},
}
