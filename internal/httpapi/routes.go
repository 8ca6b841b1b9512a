package httpapi

import (
	"slices"

	"github.com/stipend/stipend/internal/identity"
)

// routes lists every operation of the API. A path that is not listed gets 404, and [New] panics if a route has no
// scope.
var routes = slices.Concat(accountRoutes, payrollRoutes, peopleRoutes, reportRoutes, moneyRoutes, verificationRoutes,
	publicRoutes, sandboxRoutes)

// accountRoutes are the operations on the credential, the company, events and webhooks.
var accountRoutes = []route{
	{
		method: "GET", path: credentialPath, name: "get-credential",
		scope: anyScope, kind: read, handler: handle(getCredential),
		summary:     "Get the credential",
		description: "Returns the company, the user and the scopes of the credential that the request was sent with.",
	},
	{
		method: "GET", path: "/api/company", name: "get-company",
		scope: identity.CompanyDetail, kind: read, bodyOptional: true, handler: handle(getCompany),
		summary: "Get the company",
		description: "Returns the company that the credential acts for, the state of its verification, and the " +
			"details and documents that are still missing. An API key also gets the beneficial owners.",
	},

	{
		method: "GET", path: "/api/events", name: "list-events",
		scope: identity.CompanyDetail, kind: read, handler: handle(listEvents),
		summary: "List events",
		description: "Returns the events of the last 30 days, oldest first by default. To poll, send the returned " +
			"`next_after` as `after` in the next request.",
	},
	{
		method: "POST", path: "/api/webhooks", name: "create-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: withSecret(handle(createWebhook)),
		summary: "Create a webhook endpoint",
		description: "Events are sent to the endpoint from now on. The response contains the signing secret, which " +
			"is not shown again. A company can have at most 10 endpoints.",
		errors: []string{"invalid_state", "url_not_allowed"},
	},
	{
		method: "GET", path: "/api/webhooks", name: "list-webhooks",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWebhooks),
		summary:     "List webhook endpoints",
		description: "Returns all webhook endpoints of the company, without their secrets.",
	},
	{
		method: "GET", path: "/api/webhooks/{webhook_id}", name: "get-webhook",
		scope: identity.CompanyDetail, kind: read, handler: handle(getWebhook),
		summary:     "Get a webhook endpoint",
		description: "Returns the endpoint with its state, without its secret.",
	},
	{
		method: "PATCH", path: "/api/webhooks/{webhook_id}", name: "update-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(updateWebhook),
		summary:     "Update a webhook endpoint",
		description: "Changes the URL, the description or the event types. Absent fields stay unchanged.",
		errors:      []string{"url_not_allowed"},
	},
	{
		method: "DELETE", path: "/api/webhooks/{webhook_id}", name: "delete-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(deleteWebhook),
		summary:     "Delete a webhook endpoint",
		description: "Deletes the endpoint and its deliveries. Pending deliveries are not sent.",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/rotate", name: "rotate-webhook-secret",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, bodyOptional: true,
		handler: withSecret(handle(rotateWebhook)),
		summary: "Rotate a webhook endpoint's secret",
		description: "Returns a new signing secret, which is not shown again. Until the overlap ends, each delivery " +
			"is signed with both secrets.",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/test", name: "test-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(testWebhook),
		summary:     "Send a test event",
		description: "Sends a `webhook.test` event to the endpoint.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/disable", name: "disable-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(disableWebhook),
		summary: "Disable a webhook endpoint",
		description: "Cancels the pending deliveries of the endpoint. Events that occur while it is disabled are not " +
			"sent to it, but can be redelivered.",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/enable", name: "enable-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(enableWebhook),
		summary:     "Enable a webhook endpoint",
		description: "Events that occur from now on are sent to the endpoint again. To send earlier ones, redeliver them.",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/redeliver", name: "redeliver-webhook-range",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, bodyOptional: true, handler: handle(redeliverRange),
		summary: "Redeliver events of a period",
		description: "Queues the events of a period, of the last 30 days by default, in the background. Only " +
			"deliveries that did not succeed are repeated, unless `which` is `all`.",
		errors: []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/webhooks/{webhook_id}/deliveries", name: "list-webhook-deliveries",
		scope: identity.CompanyDetail, kind: read, handler: handle(listDeliveries),
		summary:     "List deliveries",
		description: "Returns the past and pending deliveries of a webhook endpoint, newest first.",
	},
	{
		method: "GET", path: "/api/webhooks/{webhook_id}/deliveries/{event_id}", name: "get-webhook-delivery",
		scope: identity.CompanyDetail, kind: read, handler: handle(getDelivery),
		summary:     "Get a delivery",
		description: "Returns a delivery with its request and every attempt with its response.",
	},
	{
		method: "POST", path: "/api/webhooks/{webhook_id}/deliveries/{event_id}/redeliver", name: "redeliver-webhook",
		scope: identity.CompanyDetail, apiKeyOnly: true, kind: write, handler: handle(redeliverOne),
		summary:     "Redeliver an event",
		description: "Sends one event to the endpoint again, whether or not an earlier delivery succeeded.",
		errors:      []string{"invalid_state"},
	},
}

// publicRoutes are the operations for x402 payments, rates and currencies.
var publicRoutes = []route{
	{
		method: "GET", path: paymentPath, name: "pay-by-x402",
		scope: public, perNetwork: true, kind: direct, handler: handle(pay),
		summary: "Pay a claim or payment link by x402",
		description: "For programs that pay with x402, version 2 (scheme `exact`, EIP-3009). Without PAYMENT-SIGNATURE the " +
			"response is 402 with the terms; with it, the payment is settled, and the response has PAYMENT-RESPONSE. The same " +
			"PAYMENT-SIGNATURE never pays twice. A request for a payment link creates a claim.",
		errors: []string{
			"already_processing", "amount_not_positive", "amount_precision", "company_frozen", "invalid_state",
			"malformed_json", "rate_unavailable",
		},
	},

	{
		method: "GET", path: "/api/rates", name: "list-rates",
		scope: public, kind: read, handler: handle(listRates),
		summary:     "List exchange rates",
		description: "Returns the current exchange rates.",
	},
	{
		method: "GET", path: "/api/currencies", name: "list-currencies",
		scope: public, kind: read, handler: handle(listCurrencies),
		summary:     "List currencies",
		description: "Returns the supported currencies with their decimals, networks and countries.",
	},
}

// sandboxRoutes are operations that exist only in a sandbox.
var sandboxRoutes = []route{
	{
		method: "POST", path: "/api/sandbox/deposit", name: "sandbox-deposit",
		scope: anyScope, sandboxOnly: true, kind: direct, handler: handle(depositInSandbox),
		summary: "Simulate a deposit",
		description: "Pays a payroll, a claim or a wallet on the simulated chain, or a payroll by a simulated bank " +
			"transfer. `kind` selects the case to simulate; `currency` and `network` select one of the `payment_options` " +
			"of a claim.",
		example: `{"payroll_id":"prl_06gf58g6w2pq0pzjvm15cwn7n4","kind":"exact"}`,
		errors:  []string{"amount_not_positive", "amount_precision", "amount_too_small", "invalid_state"},
	},
	{
		method: "POST", path: "/api/sandbox/bank-deposit", name: "sandbox-bank-deposit",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(bankDeposit),
		summary:     "Simulate a bank transfer",
		description: "Simulates a bank transfer to a funding account.",
		example: `{"funding_account_id":"fac_06gf58g6w2y1gp9sf76hca02rw","amount":100.00,"currency":"EUR",` +
			`"reference":"TRF-2026-0917"}`,
		errors: []string{"amount_not_positive", "amount_precision", "currency_not_supported", "invalid_state", "not_found"},
	},
	{
		method: "POST", path: "/api/sandbox/clock", name: "sandbox-clock",
		scope: anyScope, sandboxOnly: true, kind: direct, handler: handle(advanceClock),
		summary:     "Advance the clock",
		description: "Advances the service's clock, for all companies of the sandbox.",
	},
	{
		method: "POST", path: "/api/sandbox/fee-rate", name: "sandbox-fee-rate",
		scope: anyScope, sandboxOnly: true, kind: direct, handler: handle(setFeeRate),
		summary: "Set the fee rate",
		description: "Sets the fee rate of the simulated chain. Payouts wait while it is above 150 satoshis per " +
			"virtual byte.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/sandbox/payout-failure", name: "sandbox-payout-failure",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(failPayout),
		summary:     "Fail a payment",
		description: "Makes the payouts of a payment fail.",
		errors:      []string{"already_processing"},
	},
	{
		method: "POST", path: "/api/sandbox/bank-return", name: "sandbox-bank-return",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(returnByBank),
		summary:     "Return a payment",
		description: "Makes the bank return the payouts of a payment.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/sandbox/mandate", name: "sandbox-mandate",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(acceptMandate),
		summary:     "Accept a mandate",
		description: "Accepts a mandate for direct debits, as an owner or administrator does on the page.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/sandbox/direct-debit-return", name: "sandbox-direct-debit-return",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(returnDebit),
		summary:     "Return a direct debit",
		description: "Makes the bank return a direct debit that it collected.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/sandbox/mails", name: "sandbox-mails",
		scope: anyScope, sandboxOnly: true, kind: read, handler: handle(listKeptMails),
		summary:     "List captured mails",
		description: "Returns the mails that the sandbox would have sent, newest first.",
	},
	{
		method: "POST", path: "/api/sandbox/kyc", name: "sandbox-kyc",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(decideKYC),
		summary:     "Decide the verification of a user",
		description: "Sets the result of the verification of a user.",
		errors:      []string{"invalid_state", "not_found"},
	},
	{
		method: "POST", path: "/api/sandbox/kyb", name: "sandbox-kyb",
		scope: anyScope, sandboxOnly: true, kind: write, handler: handle(decideKYB),
		summary:     "Decide the verification of a company",
		description: "Sets the result of the verification of the company or of one of its owners.",
		errors:      []string{"invalid_state"},
	},
}
