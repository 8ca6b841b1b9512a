package httpapi

import (
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
)

// moneyRoutes are the operations on claims, payment links, wallets, withdrawals and direct debits.
var moneyRoutes = []route{
	{
		method: "POST", path: "/api/merchant/claim/create", name: "create-claim",
		scope: identity.CompanyWorkersPay, kind: write, handler: withPrefetch(claimKeys, handle(createClaim)),
		summary: "Create a claim",
		description: "Creates a claim with its first quote, which is valid for 15 minutes. The address belongs to " +
			"this claim permanently. With `funding_currency` `any`, each currency in `payment_options` has " +
			"its own quote. Show the payer the `checkout_url`, or the address and the amount. A second request with " +
			"the same `external_id` and the same content returns the first claim; other content is a conflict.",
		example: `{"payer_id":"customer-4711","amount":120.00,"denomination_currency":"EUR",` +
			`"funding_currency":"BTC","description":"Order 17"}`,
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "currency_not_supported",
			"external_id_conflict", "payer_deleted", "rate_unavailable", "redirect_uri_invalid",
		},
	},
	{
		method: "POST", path: "/api/merchant/claim/quote/refresh", name: "refresh-claim-quote",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(refreshClaimQuote),
		summary: "Refresh the quote of a claim",
		description: "Returns an active quote unchanged. Replaces an expired one: the new quote has the current " +
			"rate, the amount still due and the same address. A late deposit is first counted at the current rate; if " +
			"it covers the claim, the claim is paid and its last quote is returned.",
		errors: []string{"amount_too_large", "invalid_state", "quote_locked", "rate_unavailable"},
	},
	{
		method: "GET", path: "/api/merchant/claim/status", name: "get-claim-status",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(getClaimStatus),
		summary:     "Get a claim",
		description: "Returns the state of a claim, its latest quote and the payments received.",
	},
	{
		method: "POST", path: "/api/merchant/claim/cancel", name: "cancel-claim",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(cancelClaim),
		summary: "Cancel a claim",
		description: "Possible until a deposit arrives. The address stays monitored, and later deposits are " +
			"refundable to the payer.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/merchant/claim/refund", name: "refund-claim",
		scope: identity.CompanyWorkersPay, kind: write, handler: withSecret(handle(refundClaim)),
		summary: "Refund a claim",
		description: "Without an `amount`, offers the payer the excess of an overpayment, or, for a claim that was not " +
			"paid in time or in full, the whole amount received. A new offer replaces one that was not accepted. With an " +
			"`amount`, refunds that part of a paid claim from the merchant's money: what claims earned, then the balance, " +
			"or the `source` that you name. It leaves there at once. Several refunds are possible until the claim's " +
			"amount is returned; above the company's approval limit, other members approve first. In both cases the payer " +
			"enters an address at the `refund_url`, which is returned only once: Stipend cannot send a refund without an " +
			"address, and the one that paid may belong to an exchange. The link is mailed to the claim's " +
			"`notification_email`, after the approvals if it needs any; without one, give it to the payer. An offer " +
			"expires after " +
			"90 days.",
		errors: []string{
			"already_processing", "amount_not_positive", "amount_precision", "amount_too_small",
			"conversion_unavailable", "currency_not_supported", "insufficient_balance", "invalid_state", "rate_unavailable",
		},
	},
	{
		method: "POST", path: "/api/merchant/claim/refund/cancel", name: "cancel-refund",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(cancelRefund),
		summary: "Cancel a refund",
		description: "Cancels a refund of a paid claim that the payer has not accepted. Its coins are exchanged back at " +
			"the current rate, and the money returns to where it came from. Repeating the request has no effect.",
		errors: []string{"invalid_state", "rate_unavailable"},
	},
	{
		method: "POST", path: "/api/merchant/settlements", name: "settle-claims",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(settleClaims),
		summary: "Settle claims",
		description: "Credits the proceeds of claims to the company's balance at once, where they can fund payrolls. " +
			"If the merchant settings name a bank currency (`settlement_convert_to`), they are exchanged into it first, at " +
			"the current rate. If the settings name a destination (`settlement_destination_id`) in the currency that " +
			"is credited, a withdrawal sends them there, subject to the cool-down, the company's limit and every other " +
			"rule for withdrawals.",
		example: `{"currency":"BTC"}`,
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small",
			"conversion_unavailable",
			"currency_not_supported", "destination_cooling", "insufficient_balance", "kyc_required", "rate_unavailable",
		},
	},
	{
		method: "GET", path: "/api/merchant/settlements", name: "list-settlements",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(listSettlements),
		summary:     "List settlements",
		description: "Returns the company's settlements, newest first.",
	},
	{
		method: "GET", path: "/api/merchant/settlements/{settlement_id}", name: "get-settlement",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(getSettlement),
		summary: "Get the statement of a settlement",
		description: "Returns a settlement with what changed the proceeds of claims in its currency since the settlement " +
			"before it: `opening_amount` + `claims_amount` - `fees_amount` - `refunds_amount` - `earned_amount` = " +
			"`closing_amount`. The page lists the changes, oldest first.",
	},
	{
		method: "GET", path: "/api/merchant/settlements/{settlement_id}/export", name: "export-settlement",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(exportSettlement),
		files:   []string{"text/csv", document.TypePDF},
		summary: "Export the statement of a settlement",
		description: "Returns the statement as a CSV file with all its lines and the settlement as the last one, or as a " +
			"PDF with the first 1,000 lines.",
	},
	{
		method: "GET", path: "/api/merchant/claims", name: "list-claims",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(listClaims),
		summary:     "List claims",
		description: "Returns the company's claims, newest first. Filters combine.",
	},
	{
		method: "GET", path: "/api/merchant/claims/export", name: "export-claims",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(exportClaims),
		summary:     "Export claims",
		description: "Returns the claims that match the filters as a CSV file, newest first.",
	},
	{
		method: "GET", path: "/api/merchant/settings", name: "get-merchant-settings",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(getMerchantSettings),
		summary:     "Get the merchant settings",
		description: "Returns the company's settings for claims.",
	},
	{
		method: "POST", path: "/api/merchant/settings", name: "change-merchant-settings",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(changeMerchantSettings),
		summary:     "Update the merchant settings",
		description: "Absent fields stay unchanged. A change applies to claims created after it.",
		example:     `{"tolerance_bps":50,"confirmations":1,"late_policy":"requote"}`,
	},
	{
		method: "POST", path: "/api/merchant/payment-links", name: "create-payment-link",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(createPaymentLink),
		summary: "Create a payment link",
		description: "Creates a reusable link, `url`. Each payer who opens it to pay gets a claim, with the fixed `amount` " +
			"or one that the payer chooses within `min_amount` and `max_amount`. With `max_payments`, open claims reserve " +
			"a place for 30 minutes, so no more claims are paid than that.",
		example: `{"title":"Concert ticket","amount":25.00,"denomination_currency":"EUR","max_payments":100}`,
		errors: []string{
			"amount_not_positive", "amount_precision", "currency_not_supported", "redirect_uri_invalid",
		},
	},
	{
		method: "GET", path: "/api/merchant/payment-links", name: "list-payment-links",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(listPaymentLinks),
		summary:     "List payment links",
		description: "Returns the company's payment links, newest first.",
	},
	{
		method: "GET", path: "/api/merchant/payment-links/{payment_link_id}", name: "get-payment-link",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(getPaymentLink),
		summary:     "Get a payment link",
		description: "Returns a payment link with the number of its paid and open claims.",
	},
	{
		method: "PATCH", path: "/api/merchant/payment-links/{payment_link_id}", name: "update-payment-link",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(changePaymentLink),
		summary:     "Update a payment link",
		description: "Absent fields stay unchanged. Claims that are already open keep their terms and places.",
		errors:      []string{"missing_field", "redirect_uri_invalid"},
	},
	{
		method: "GET", path: "/api/merchant/branding", name: "get-merchant-branding",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(getMerchantBranding),
		summary:     "Get the merchant branding",
		description: "Returns how the company's public pages and mails look to payers.",
	},
	{
		method: "POST", path: "/api/merchant/branding", name: "change-merchant-branding",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, bodyLimit: logoLimit,
		handler: withPreprocess(readLogo, handle(changeMerchantBranding)),
		summary: "Update the merchant branding",
		description: "Absent fields stay unchanged, empty ones are removed. A change applies to all pages at once, also of " +
			"earlier claims. `themes` has the colors that follow from `accent_color`: one with too little contrast to the " +
			"page is darkened or lightened, and text on it is black or white.",
		example: `{"display_name":"Corner Books","accent_color":"#1d3f8f","thank_you":"We pack it today."}`,
		errors:  []string{"name_mixed_scripts", "name_reserved", "unsupported_image"},
	},

	{
		method: "POST", path: "/api/wallets/request", name: "request-wallet",
		scope: identity.CompanyDetail, apiKeyOnly: true, platforms: true, kind: write, handler: handle(requestWallet),
		summary: "Request a wallet",
		description: "Requests a wallet in a currency. A repeated request returns the existing wallet. A wallet in a " +
			"crypto currency gets a permanent deposit address.",
		errors: []string{"currency_not_supported"},
	},
	{
		method: "GET", path: "/api/wallets", name: "list-wallets",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWallets),
		summary:     "List wallets",
		description: "Returns the company's balance in each currency.",
	},
	{
		method: "GET", path: "/api/wallets/deposits", name: "list-wallet-deposits",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWalletDeposits),
		summary:     "List deposits to wallets",
		description: "Returns the crypto deposits to the company's balance, newest first.",
	},
	{
		method: "GET", path: "/api/wallets/transactions", name: "list-wallet-transactions",
		scope: identity.CompanyDetail, kind: read, handler: handle(listTransactions),
		summary:     "List balance transactions",
		description: "Returns the transactions of the balance, newest first, each with the balance after it.",
		errors:      []string{"currency_not_supported"},
	},
	{
		method: "GET", path: "/api/wallets/statement", name: "get-wallet-statement",
		scope: identity.CompanyDetail, kind: read, handler: handle(getWalletStatement),
		summary: "Get a statement",
		description: "Returns the opening balance, the transactions and the closing balance of one currency in a " +
			"period, by default the current month.",
		errors: []string{"currency_not_supported"},
	},
	{
		method: "GET", path: "/api/wallets/statement/export", name: "export-wallet-statement",
		scope: identity.CompanyDetail, kind: read, handler: handle(exportWalletStatement),
		files:   []string{"text/csv", document.TypePDF, document.TypeXML},
		summary: "Export a statement",
		description: "Returns the whole statement of one currency in a period as a CSV file, a PDF or a camt.053 file for " +
			"accounting software. A period can have at most 10,000 transactions.",
		errors: []string{"currency_not_supported"},
	},
	{
		method: "GET", path: "/api/wallets/destinations", name: "list-withdrawal-destinations",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWithdrawalDestinations),
		summary: "List withdrawal destinations",
		description: "Returns the company's own destinations. They are managed on the page /wallets/withdrawals, " +
			"because changing them requires a second factor.",
	},
	{
		method: "POST", path: "/api/wallets/withdraw", name: "withdraw",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, keyRequired: true,
		handler: handle(withdraw),
		summary: "Create a withdrawal",
		description: "Debits the balance and sends the amount to one of the company's own destinations. Depending on " +
			"the company's limits, owners or administrators must approve it first.",
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small",
			"destination_cooling", "external_id_conflict", "insufficient_balance", "kyc_required",
		},
	},
	{
		method: "POST", path: "/api/wallets/withdrawals/cancel", name: "cancel-withdrawal",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(cancelWithdrawal),
		summary:     "Cancel a withdrawal",
		description: "Possible until the withdrawal is sent. The amount is credited to the balance again.",
		errors:      []string{"already_processing", "invalid_state"},
	},
	{
		method: "GET", path: "/api/wallets/withdrawals", name: "list-withdrawals",
		scope: identity.CompanyDetail, kind: read, handler: handle(listWithdrawals),
		summary:     "List withdrawals",
		description: "Returns the company's withdrawals, newest first.",
	},
	{
		method: "GET", path: "/api/wallets/withdrawals/{withdrawal_id}", name: "get-withdrawal",
		scope: identity.CompanyDetail, kind: read, handler: handle(getWithdrawal),
		summary:     "Get a withdrawal",
		description: "Returns a withdrawal and, while it waits, the approvals required and given.",
	},
	{
		method: "GET", path: "/api/wallets/mandates", name: "list-mandates",
		scope: identity.CompanyDetail, kind: read, handler: handle(listMandates),
		summary: "List mandates",
		description: "Returns the mandates under which the company's bank accounts can be debited. Members accept them on " +
			"the page /wallets/direct-debits, because it requires a second factor.",
	},
	{
		method: "GET", path: "/api/wallets/mandates/{mandate_id}", name: "get-mandate",
		scope: identity.CompanyDetail, kind: read, handler: handle(getMandate),
		summary:     "Get a mandate",
		description: "Returns a mandate with its proof: the accepted text, and who accepted it, when and where.",
	},
	{
		method: "POST", path: "/api/wallets/mandates/revoke", name: "revoke-mandate",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(revokeMandate),
		summary:     "Revoke a mandate",
		description: "Direct debits under it that were not sent are cancelled.",
	},
	{
		method: "POST", path: "/api/wallets/direct-debits", name: "create-direct-debit",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, keyRequired: true, handler: handle(createDebit),
		summary: "Create a direct debit",
		description: "Debits the company's bank account under a mandate. The money is credited to the balance, from which " +
			"payrolls are funded, when the hold of the scheme has ended. The owners and administrators get an announcement by " +
			"mail.",
		errors: []string{"amount_not_positive", "amount_precision", "external_id_conflict", "invalid_state", "kyc_required",
			"mandate_not_active"},
	},
	{
		method: "POST", path: "/api/wallets/direct-debits/cancel", name: "cancel-direct-debit",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(cancelDebit),
		summary:     "Cancel a direct debit",
		description: "Possible until it is sent to the bank.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/wallets/direct-debits/retry", name: "retry-direct-debit",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(retryDebit),
		summary: "Retry a direct debit",
		description: "Repeats a direct debit that was returned for lack of funds, at most twice and within 30 days. Its " +
			"mandate becomes active again.",
		errors: []string{"insufficient_balance", "invalid_state", "kyc_required", "mandate_not_active"},
	},
	{
		method: "GET", path: "/api/wallets/direct-debits", name: "list-direct-debits",
		scope: identity.CompanyDetail, kind: read, handler: handle(listDebits),
		summary:     "List direct debits",
		description: "Returns the company's direct debits, newest first.",
	},
	{
		method: "GET", path: "/api/wallets/direct-debits/{debit_id}", name: "get-direct-debit",
		scope: identity.CompanyDetail, kind: read, handler: handle(getDebit),
		summary:     "Get a direct debit",
		description: "Returns a direct debit.",
	},
}
