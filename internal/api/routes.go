package api

import "github.com/stipend/stipend/internal/identity"

// routes is the whole interface. What a line does not say is refused: a path that is not here is a 404, and a line without
// a scope stops the service at start.
var routes = []route{
	{method: "GET", path: "/api/company", scope: identity.CompanyDetail, kind: read, handler: handle(getCompany),
		name: "get-company", summary: "The company that the credential acts for"},

	{method: "POST", path: "/api/company/payroll/create", scope: identity.CompanyWorkersPay, kind: write, handler: handle(createPayroll),
		limit: payrollLimit, keyed: true, name: "create-payroll", summary: "Create a payroll paying company workers"},
	{method: "POST", path: "/api/company/payroll/quote/refresh", scope: identity.CompanyWorkersPay, kind: write, handler: handle(refreshQuote),
		name: "refresh-payroll-quote", summary: "Refresh expired crypto funding quotes of a payroll"},
	{method: "POST", path: "/api/company/payroll/preview", scope: identity.CompanyWorkersPay, kind: read, handler: handle(previewPayroll),
		limit: payrollLimit, name: "preview-payroll", summary: "What creating a payroll would do, without doing it"},
	{method: "POST", path: "/api/company/payroll/cancel", scope: identity.CompanyWorkersPay, kind: write, handler: handle(cancelPayroll),
		name: "cancel-payroll", summary: "Cancel a payroll of which nothing was released"},
	{method: "GET", path: "/api/company/payrolls", scope: identity.CompanyWorkersPay, kind: read, handler: handle(listPayrolls),
		name: "list-payrolls", summary: "Payrolls of the company, newest first"},
	{method: "GET", path: "/api/company/payrolls/{payroll_id}", scope: identity.CompanyWorkersPay, kind: read, handler: handle(getPayroll),
		name: "get-payroll", summary: "One payroll with its payments, outputs, deposits and timeline"},

	{method: "GET", path: "/api/company/workers", scope: identity.CompanyWorkerList, kind: read, handler: handle(listWorkers),
		name: "list-workers", summary: "Workers of the company"},
	{method: "POST", path: "/api/company/worker/invite", scope: identity.CompanyWorkersInvite, kind: write, handler: handle(inviteWorker),
		name: "invite-worker", summary: "Invite a person to become a worker"},
	{method: "POST", path: "/api/company/worker/invite/resend", scope: identity.CompanyWorkersInvite, kind: write, handler: handle(resendInvitation),
		name: "resend-invitation", summary: "Send an invitation again, at most 3 times"},
	{method: "POST", path: "/api/company/worker/invite/revoke", scope: identity.CompanyWorkersInvite, kind: write, handler: handle(revokeInvitation),
		name: "revoke-invitation", summary: "End an open invitation"},
	{method: "GET", path: "/api/company/worker/invitations", scope: identity.CompanyWorkerInvitationsList, kind: read, handler: handle(listInvitations),
		name: "list-invitations", summary: "Invitations of the company, newest first"},
	{method: "GET", path: "/api/company/recipients", scope: identity.CompanyWorkerList, kind: read, handler: handle(listRecipients),
		name: "list-recipients", summary: "Recipients of the company: workers and vendors"},
	{method: "POST", path: "/api/company/{company_id}/recipients/create", scope: identity.CompanyWorkersInvite, kind: write, handler: createdRecipient(),
		name: "create-recipient", summary: "Create and link a recipient without a login"},
	{method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution", scope: identity.CompanyWorkersInvite, kind: write,
		handler: handle(createDistribution), name: "create-recipient-distribution", summary: "Create a payment destination for a recipient"},
	{method: "DELETE", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution", scope: identity.CompanyWorkersInvite, kind: write,
		handler: handle(deleteDistribution), name: "delete-recipient-distribution", summary: "Delete a recipient's destination; its allocation must be 0"},
	{method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution", scope: identity.CompanyWorkersInvite, kind: read,
		handler: handle(listDistributions), name: "list-recipient-distributions", summary: "A recipient's destinations"},
	{method: "PATCH", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/allocations", scope: identity.CompanyWorkersInvite,
		kind: write, handler: handle(setAllocations), name: "set-recipient-allocations", summary: "Set what share each destination of a recipient gets"},

	{method: "POST", path: "/api/wallets/request", scope: identity.CompanyDetail, kind: write, handler: handle(requestWallet),
		name: "request-wallet", summary: "Ask for a wallet in a currency"},
	{method: "GET", path: "/api/wallets", scope: identity.CompanyDetail, kind: read, handler: handle(listWallets),
		name: "list-wallets", summary: "What the company has in each currency"},
	{method: "GET", path: "/api/wallets/transactions", scope: identity.CompanyDetail, kind: read, handler: handle(listTransactions),
		name: "list-wallet-transactions", summary: "What moved the company's balances, with the balance after each"},

	{method: "GET", path: "/api/rates", scope: public, kind: read, handler: handle(listRates),
		name: "list-rates", summary: "The present exchange rates"},
	{method: "GET", path: "/api/currencies", scope: public, kind: read, handler: handle(listCurrencies),
		name: "list-currencies", summary: "The currencies that this service knows"},

	{method: "POST", path: "/api/sandbox/deposit", scope: anyScope, kind: direct, handler: handle(depositInSandbox), sandbox: true,
		name: "sandbox-deposit", summary: "Pay a payroll on the simulated chain"},
	{method: "POST", path: "/api/sandbox/clock", scope: anyScope, kind: direct, handler: handle(advanceClock), sandbox: true,
		name: "sandbox-clock", summary: "Move the service's clock forward"},
	{method: "POST", path: "/api/sandbox/payout-failure", scope: anyScope, kind: write, handler: handle(failPayout), sandbox: true,
		name: "sandbox-payout-failure", summary: "Make the payouts of a payment fail"},
	{method: "GET", path: "/api/sandbox/mails", scope: anyScope, kind: read, handler: handle(listKeptMails), sandbox: true,
		name: "sandbox-mails", summary: "Mails that were kept rather than sent, newest first"},
}
