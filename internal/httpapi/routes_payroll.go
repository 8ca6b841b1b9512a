package httpapi

import (
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
)

// payrollRoutes are the operations on payrolls, payments, schedules and approvals.
var payrollRoutes = []route{
	{
		method: "POST", path: "/api/company/payroll/create", name: "create-payroll",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: payrollLimit, keyRequired: true,
		handler: handle(createPayroll),
		summary: "Create a payroll",
		description: "Creates a payroll of up to 10,000 payees. Once it is funded, each payee's destinations are " +
			"paid. With `funding_method` `crypto` the response contains a firm quote, valid for 30 minutes; with " +
			"`bank`, the amount to transfer in the payroll's own currency and the reference to use; with `wallet`, the " +
			"balance pays at once. With `direct_debit` the total is collected under the company's newest active mandate " +
			"in the currency, and pays the payroll when its hold has ended. If any payee is invalid, nothing is created.",
		example: examplePayroll,
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small",
			"conversion_unavailable", "country_not_supported", "currency_not_supported", "external_id_conflict",
			"insufficient_balance",
			"invalid_state", "kyc_required", "mandate_not_active", "no_distribution", "payer_deleted", "rate_unavailable",
			"recipient_inactive",
		},
	},
	{
		method: "POST", path: "/api/company/payroll/update", name: "update-payroll",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: payrollLimit, handler: handle(updatePayroll),
		summary: "Update a payroll",
		description: "Changes the payees, amounts or reference of a payroll that waits for its funding and has received " +
			"nothing. The address stays. An active quote is replaced by one for the new total, at the same rate and with the " +
			"same end. In a payroll that pays vendors, name a vendor in `user_id`; documents that no payment has any more " +
			"can be paid by another payroll. A request with `metadata` only replaces them, in any state.",
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "country_not_supported",
			"external_id_conflict", "invalid_state", "no_distribution", "recipient_inactive",
		},
	},
	{
		method: "POST", path: "/api/company/payroll/quote/refresh", name: "refresh-payroll-quote",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(refreshQuote),
		summary: "Refresh the quote of a payroll",
		description: "Returns an active quote unchanged. Replaces an expired one: the new quote has the current " +
			"rate, the amount still due and the same address.",
		errors: []string{"amount_too_large", "invalid_state", "quote_locked", "rate_unavailable"},
	},
	{
		method: "POST", path: "/api/company/payroll/preview", name: "preview-payroll",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, bodyLimit: payrollLimit,
		handler: handle(previewPayroll),
		summary: "Preview a payroll",
		description: "Accepts the body of create, applies every rule and returns all amounts, but creates nothing. " +
			"`blockers` lists the problems for which creation would be rejected.",
		example: examplePayroll,
	},
	{
		method: "POST", path: "/api/company/payroll/cancel", name: "cancel-payroll",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(cancelPayroll),
		summary: "Cancel a payroll",
		description: "Possible until a payment is released. Funds already received are credited to the company's balance; " +
			"if they pay at the rate of a quote that has ended, at most what the payroll costs at the present rate.",
		errors: []string{"already_processing", "invalid_state", "rate_unavailable"},
	},
	{
		method: "POST", path: "/api/company/payroll/schedule/create", name: "create-schedule",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: payrollLimit, handler: handle(createSchedule),
		summary: "Create a schedule of payrolls",
		description: "Creates a payroll for each day of the schedule, `days_ahead` days before its pay date: one that " +
			"waits for its funding, or one that the balance pays. If a payroll cannot be created, the run waits and is tried " +
			"again every hour; owners and administrators get a mail. The payees must be payable now.",
		example: exampleSchedule,
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "country_not_supported",
			"currency_not_supported", "no_distribution", "recipient_inactive",
		},
	},
	{
		method: "POST", path: "/api/company/payroll/schedule/update", name: "update-schedule",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: payrollLimit, handler: handle(updateSchedule),
		summary: "Update a schedule",
		description: "Changes the given members, or pauses, resumes or ends the schedule. Payrolls that exist stay as they " +
			"are. When a schedule is resumed, the runs whose pay date has passed are skipped. To change the days, end the " +
			"schedule and create another.",
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "country_not_supported",
			"invalid_state", "no_distribution", "recipient_inactive",
		},
	},
	{
		method: "POST", path: "/api/company/payroll/schedule/run", name: "change-schedule-run",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: payrollLimit, handler: handle(changeScheduleRun),
		summary: "Change or skip a run of a schedule",
		description: "Skips one run, plans it again, or gives it other payees and amounts. Possible until its payroll is " +
			"created.",
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small", "country_not_supported",
			"invalid_state", "no_distribution", "recipient_inactive",
		},
	},
	{
		method: "GET", path: "/api/company/payroll/schedules", name: "list-schedules",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(listSchedules),
		summary:     "List schedules",
		description: "Returns the company's schedules, newest first.",
	},
	{
		method: "GET", path: "/api/company/payroll/schedules/{schedule_id}", name: "get-schedule",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(getSchedule),
		summary:     "Get a schedule",
		description: "Returns a schedule with its payees, its last 24 runs and the next six.",
	},
	{
		method: "POST", path: "/api/company/proposals/payroll", name: "propose-payroll",
		scope: identity.CompanyPropose, kind: write, proposes: true, handler: handle(proposePayroll),
		summary: "Propose a payroll",
		description: "Stores a payroll for a member of the company to review, and returns the address of the page. " +
			"Nothing is created or paid until the member confirms it. Accepts the body of creating a payroll, with up to " +
			"1,000 payees, and " +
			"a note for the member. A proposal ends after 7 days, and a company has at most 20 open ones. Proposing the same " +
			"again returns the open proposal.",
		example: examplePayroll,
		errors:  []string{"invalid_state", "proposal_blocked"},
	},
	{
		method: "POST", path: "/api/company/proposals/claim", name: "propose-claim",
		scope: identity.CompanyPropose, kind: write, proposes: true, handler: handle(proposeClaim),
		summary: "Propose a claim",
		description: "Stores a claim for a member of the company to review, and returns the address of the page. Nothing " +
			"is created until the member confirms it. Accepts the body of creating a claim, and a note for the member. A " +
			"proposal " +
			"ends after 7 days, and a company has at most 20 open ones. Proposing the same again returns the open proposal.",
		example: `{"payer_id":"customer-4711","amount":120.00,"denomination_currency":"EUR","note":"For order 17"}`,
		errors:  []string{"invalid_state", "proposal_blocked"},
	},
	{
		method: "POST", path: "/api/company/proposals/cancel", name: "cancel-proposal",
		scope: identity.CompanyPropose, kind: write, proposes: true, handler: handle(cancelProposal),
		summary:     "Cancel a proposal",
		description: "Withdraws an open proposal of the app. Members can no longer confirm it.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/company/proposals", name: "list-proposals",
		scope: identity.CompanyPropose, orScope: identity.CompanyWorkersPay, kind: read, handler: handle(listProposals),
		summary:     "List proposals",
		description: "Returns the company's proposals, newest first.",
	},
	{
		method: "GET", path: "/api/company/proposals/{proposal_id}", name: "get-proposal",
		scope: identity.CompanyPropose, orScope: identity.CompanyWorkersPay, kind: read, handler: handle(getProposal),
		summary:     "Get a proposal",
		description: "Returns a proposal with its state and, once a member has confirmed it, the ID of what was created.",
	},
	{
		method: "GET", path: "/api/company/payrolls", name: "list-payrolls",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(listPayrolls),
		summary:     "List payrolls",
		description: "Returns the company's payrolls, newest first. Filters combine.",
	},
	{
		method: "GET", path: "/api/company/members", name: "list-members", apiKeyOnly: true,
		scope: identity.CompanyDetail, kind: read, handler: handle(listMembers),
		summary: "List members",
		description: "Returns the people who can act for the company, with their roles, and the open invitations to become " +
			"members.",
	},
	{
		method: "POST", path: "/api/company/members/invite", name: "invite-member",
		scope: identity.CompanyMembers, kind: write, handler: handle(inviteMember),
		summary: "Invite a member",
		description: "Mails a person an invitation to become a member, valid for 7 days, in the name of the owner or " +
			"administrator who granted the access token and has presented a second factor with it in the last 10 minutes. A " +
			"second invitation replaces the first. Returns the members and invitations.",
		errors: []string{"invalid_state", "invitation_limit_reached", "role_required", "second_factor_required"},
	},
	{
		method: "POST", path: "/api/company/members/role", name: "set-member-role",
		scope: identity.CompanyMembers, kind: write, handler: handle(setMemberRole),
		summary: "Change a member's role",
		description: "Changes the role of a member, as the person who granted the access token and has presented a " +
			"second factor. Only an owner changes the role of an owner, and a company keeps one. Returns the members.",
		errors: []string{"last_owner", "role_required", "second_factor_required"},
	},
	{
		method: "POST", path: "/api/company/members/remove", name: "remove-member",
		scope: identity.CompanyMembers, kind: write, handler: handle(removeMember),
		summary: "Remove a member",
		description: "Removes a member, ends their sessions and revokes what they granted to apps, as the person who " +
			"granted the access token and has presented a second factor. Returns the other members.",
		errors: []string{"last_owner", "role_required", "second_factor_required"},
	},
	{
		method: "POST", path: "/api/company/members/invitations/revoke", name: "revoke-member-invitation",
		scope: identity.CompanyMembers, kind: write, handler: handle(revokeMemberInvitation),
		summary: "Revoke a member's invitation",
		description: "Revokes an invitation to become a member, as the person who granted the access token and has " +
			"presented a second factor. Returns the members and invitations.",
		errors: []string{"role_required", "second_factor_required"},
	},
	{
		method: "GET", path: "/api/company/approvals", name: "list-approvals",
		scope: identity.CompanyApprove, orScope: identity.CompanyWorkersPay, kind: read, handler: handle(listApprovals),
		summary: "List approvals",
		description: "Returns the payrolls, withdrawals and refunds above the company's limit, which wait for the approval " +
			"of an owner or administrator.",
	},
	{
		method: "POST", path: "/api/company/approvals/approve", name: "approve",
		scope: identity.CompanyApprove, kind: write, handler: handle(approve),
		summary: "Approve a payment",
		description: "Approves a payroll, withdrawal or refund in the name of the member who granted the access token. The " +
			"member must have presented a second factor with this token in the last 10 minutes. Nobody approves what they " +
			"created. Approving again changes nothing.",
		errors: []string{
			"invalid_state", "payroll_changed", "role_required", "second_factor_required", "second_person_required",
		},
	},
	{
		method: "POST", path: "/api/company/approvals/decline", name: "decline",
		scope: identity.CompanyApprove, kind: write, handler: handle(decline),
		summary: "Decline a payment",
		description: "Declines a payroll, withdrawal or refund that waits for an approval. Its money goes back to where it " +
			"came from. The member must have presented a second factor with this token in the last 10 minutes.",
		errors: []string{"invalid_state", "role_required", "second_factor_required"},
	},
	{
		method: "GET", path: "/api/company/security-events", name: "list-security-events", apiKeyOnly: true,
		scope: identity.CompanyDetail, kind: read, handler: handle(listSecurityEvents),
		summary: "List security events",
		description: "Returns who signed in or sent a form for the company, from where, and the outcome, newest first. " +
			"Events are kept for at least 400 days. Filters combine.",
	},
	{
		method: "GET", path: "/api/company/requests", name: "list-requests",
		scope: identity.CompanyDetail, kind: read, handler: handle(listRequests),
		summary: "List API requests",
		description: "Returns the log of the company's API requests with their responses, without secrets and personal " +
			"data, newest first. Entries are kept for 30 days. Filters combine; a filter looks at 5,000 entries at a time, so " +
			"that a page can be empty before the end.",
	},
	{
		method: "GET", path: "/api/company/payments", name: "list-payments",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(listPayments),
		summary:     "List payments",
		description: "Returns the payments of all payrolls, or of one payee, the newest payroll first. Filters combine.",
	},
	{
		method: "GET", path: "/api/company/payrolls/{payroll_id}", name: "get-payroll",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(getPayroll),
		summary:     "Get a payroll",
		description: "Returns a payroll with its payments, their outputs, the deposits that funded it and its history.",
	},
	{
		method: "GET", path: "/api/company/payroll/statements/{payroll_id}", name: "export-payroll",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(exportPayroll),
		files:   []string{"text/csv", document.TypePDF},
		summary: "Export a payroll",
		description: "Returns the statement of a payroll as a CSV file with one row per output, or as a PDF in the given " +
			"language.",
	},
	{
		method: "GET", path: "/api/company/payroll/payments/{payroll_id}/{subpayroll_id}", name: "get-payment",
		scope: identity.CompanyWorkersPay, orScope: identity.CompanyPropose, kind: read, handler: handle(getPayment),
		summary:     "Get a payment",
		description: "Returns a payment of a payroll with its outputs and its history.",
	},
	{
		method: "GET", path: "/api/company/payroll/receipts/{payroll_id}/{subpayroll_id}", name: "get-payment-receipt",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(getReceipt),
		files:   []string{document.TypePDF},
		summary: "Get the receipt of a payment",
		description: "Returns the receipt of a payment that was sent, as a PDF in the given language, with its outputs, " +
			"rates and transactions.",
		errors: []string{"invalid_state"},
	},
}

// reportRoutes are the operations on reports, on vendors and on open matters.
var reportRoutes = []route{
	{
		method: "GET", path: "/api/company/reports/year", name: "get-year-report",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(getYear),
		summary: "Get the totals of a year",
		description: "Returns what each payee was paid in a calendar year (UTC), in the currencies of the payrolls and in " +
			"USD and EUR at the value when it was paid, and whether a tax ID is on file. A payment counts when it has " +
			"reached its payee.",
	},
	{
		method: "GET", path: "/api/company/reports/year/export", name: "export-year-report",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(exportYear),
		summary:     "Export the totals of a year",
		description: "Returns the totals of a year per payee and currency as a CSV file.",
	},
	{
		method: "GET", path: "/api/company/reports/1099-nec", name: "export-1099-nec",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: read, handler: handle(exportNEC),
		summary: "Export the columns of Form 1099-NEC",
		description: "Returns a CSV file with the US persons, other than employees and corporations, who were paid at " +
			"least 600 USD in a year up to 2025, or 2,000 USD in a later one. A payee in the United States without a " +
			"W-9 is listed without a tax ID. The columns are those of IRIS, the portal of the IRS. The file contains " +
			"complete tax IDs.",
	},

	{
		method: "GET", path: "/api/company/reports/journal", name: "export-journal",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(exportJournal),
		summary: "Export the journal of a month",
		description: "Returns a month's (UTC) balanced journal of the company's money in Stipend as a CSV file, with the " +
			"company's own account codes and the value of each line at its moment. `quickbooks` has the columns that " +
			"QuickBooks Online imports as journal entries, `xero` those of Xero's manual journals. A line in a currency " +
			"without a known price has an empty value, and its description says so: enter the value before an import.",
	},
	{
		method: "GET", path: "/api/company/reports/accounts", name: "list-journal-accounts",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(listJournalAccounts),
		summary:     "List the accounts of the journal",
		description: "Returns the accounts of the monthly journal with the company's codes and names.",
	},
	{
		method: "POST", path: "/api/company/reports/accounts", name: "set-journal-accounts",
		scope: identity.CompanyWorkersPay, apiKeyOnly: true, kind: write, handler: handle(setJournalAccounts),
		summary: "Set the accounts of the journal",
		description: "Sets codes and names of accounts, as in the company's accounting software. An absent code or name " +
			"becomes the default; accounts that are not listed stay unchanged.",
		example: `{"accounts":[{"account":"pay","code":"6010","name":"Wages"}]}`,
	},

	{
		method: "POST", path: "/api/vendor/payroll/quotes", name: "quote-vendor-payroll",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(quoteVendors),
		summary: "Preview a vendor payroll",
		description: "Returns the amounts and fees of paying vendors, but creates nothing. `blockers` lists the " +
			"problems for which creation would be rejected.",
	},
	{
		method: "POST", path: "/api/vendor/payroll/documents", name: "upload-vendor-document",
		scope: identity.CompanyWorkersPay, kind: write, bodyLimit: imageLimit,
		handler:     withPreprocess(readVendorDocument, handle(uploadVendorDocument)),
		summary:     "Upload a vendor's invoice",
		description: "Stores a PDF or an image. Each document can be paid by one payroll.",
		errors:      []string{"unsupported_image"},
	},
	{
		method: "POST", path: "/api/vendor/payroll", name: "create-vendor-payroll",
		scope: identity.CompanyWorkersPay, kind: write, keyRequired: true, handler: handle(createVendorPayroll),
		summary:     "Create a vendor payroll",
		description: "Creates a payroll that pays vendors, each against an uploaded invoice.",
		errors: []string{
			"amount_not_positive", "amount_precision", "amount_too_small",
			"conversion_unavailable", "country_not_supported", "currency_not_supported", "external_id_conflict",
			"insufficient_balance",
			"invalid_state", "kyc_required", "mandate_not_active", "no_distribution", "rate_unavailable",
			"recipient_inactive",
		},
	},
	{
		method: "GET", path: "/api/company/invoices", name: "list-company-invoices",
		scope: identity.CompanyWorkersPay, kind: read, handler: handle(listCompanyInvoices),
		summary: "List invoices to pay",
		description: "Returns the invoices of the company's people and the bills of its vendors, newest first. With " +
			"`status` `open`, those that a payroll can pay. `owed` has the sums of all open ones.",
	},
	{
		method: "POST", path: "/api/company/bills", name: "create-bill",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(createBill),
		summary: "Create a bill",
		description: "Records an amount that the company owes to a vendor. A vendor's number is used once. A document " +
			"is uploaded before, at POST /api/vendor/payroll/documents.",
		errors: []string{
			"amount_not_positive", "amount_precision", "currency_not_supported", "external_id_conflict", "invalid_state",
		},
	},
	{
		method: "POST", path: "/api/company/bills/void", name: "void-bill",
		scope: identity.CompanyWorkersPay, kind: write, handler: handle(voidBill),
		summary:     "Void a bill",
		description: "A bill that is paid, in part or in full, or is in a payroll cannot be voided.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/company/payroll/pay-invoices", name: "pay-invoices",
		scope: identity.CompanyWorkersPay, kind: write, keyRequired: true, handler: handle(payInvoices),
		summary: "Create a payroll from invoices",
		description: "Creates a payroll that pays open invoices and bills, each in full. They have one currency. None of " +
			"them can be in another payroll until this one is cancelled or has ended without paying it.",
		errors: []string{
			"amount_too_small", "conversion_unavailable", "currency_not_supported", "external_id_conflict",
			"insufficient_balance", "invalid_state", "kyc_required", "mandate_not_active", "no_distribution",
			"payer_deleted", "rate_unavailable", "recipient_inactive",
		},
	},
}
