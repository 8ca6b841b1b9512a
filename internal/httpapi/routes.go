package httpapi

import (
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
)

// routes lists every operation of the API. A path that is not listed gets 404, and New refuses a route without a scope.
var routes = []route{
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
			"Events are kept for 400 days. Filters combine.",
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

	{
		method: "POST", path: "/api/user/create", name: "create-user",
		scope: identity.UserCreate, kind: write, handler: handle(createUser),
		summary: "Create a user",
		description: "Creates a user who is a worker of the company. The company may then manage the profile, " +
			"documents and destinations of the user.",
		errors: []string{"not_found", "user_exists"},
	},
	{
		method: "POST", path: "/api/user/update", name: "update-user",
		scope: identity.UserUpdate, kind: write, handler: handle(updateUser),
		summary: "Update a user",
		description: "Changes the given fields of the profile. Absent fields stay unchanged. A company can update " +
			"the users that it created; a token updates its own user. Another name, birth date or country of a " +
			"verified user requires a new verification.",
		errors: []string{"invalid_state", "not_found", "user_exists"},
	},
	{
		method: "GET", path: "/api/user/detail", name: "get-user",
		scope: identity.UserDetail, kind: read, handler: handle(getUser),
		summary:     "Get a user",
		description: "Returns the profile of a user and the state of their verification.",
		errors:      []string{"missing_field", "not_found"},
	},

	{
		method: "POST", path: "/api/user/tax-form", name: "sign-tax-form",
		scope: identity.UserUpdate, kind: write, handler: handle(signTaxForm),
		summary: "Certify a tax form",
		description: "Stores the data of a W-9 or W-8BEN that the user certifies. A W-8BEN is valid until the end of the " +
			"third year after its signature. The companies that pay the user see the form's type and status, and the data " +
			"of a W-9 in the file for Form 1099-NEC.",
		example: `{"user_id":"usr_06gf58g6w28xgvfnbjvbc8gg88","form":"w9","name":"Ada Byron",` +
			`"classification":"individual","tax_id":"536904399","tax_id_type":"ssn",` +
			`"street_address":"1 Main Street","city":"New York","state":"NY","zip":"10001","certified":true}`,
		errors: []string{"country_not_supported", "not_found", "tax_id_invalid"},
	},
	{
		method: "POST", path: "/api/user/second-factor", name: "present-second-factor",
		scope: identity.CompanyApprove, orScope: identity.CompanyMembers, kind: write,
		handler: withPreprocess(proveSecondFactor, handle(showSecondFactor)),
		summary: "Present a second factor",
		description: "Checks a code of the person's authenticator. The access token may then approve payments and change " +
			"members for 10 minutes. Each code works once. Ask the person for the code each time, and never store it.",
		errors: []string{"code_wrong", "role_required"},
	},
	{
		method: "GET", path: "/api/user/tax-form", name: "get-tax-form",
		scope: identity.UserDetail, kind: read, handler: handle(getTaxForm),
		summary:     "Get a tax form",
		description: "Returns the newest W-9 or W-8BEN of the user, with all but the end of the tax ID masked.",
		errors:      []string{"missing_field", "not_found"},
	},

	{
		method: "POST", path: "/api/user/distribution", name: "create-user-destination",
		scope: identity.UserDistributionCreate, kind: write, handler: handle(createUserDestination),
		summary: "Create a destination of a user",
		description: "The first destination gets the whole allocation, later ones 0 until the allocations are set. A " +
			"user can have at most 3.",
		errors: []string{
			"address_invalid", "currency_not_supported", "distribution_limit", "not_found",
			"profile_incomplete",
		},
	},
	{
		method: "POST", path: "/api/user/distribution/update", name: "update-user-destination",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(updateUserDestination),
		summary: "Update a destination of a user",
		description: "Replaces all details of the destination. Payments to a changed destination may be held for " +
			"a cool-down.",
		errors: []string{"address_invalid", "currency_not_supported", "not_found", "profile_incomplete"},
	},
	{
		method: "POST", path: "/api/user/distribution/correction", name: "correct-user-destination",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(correctUserDestination),
		summary: "Correct a destination of a user",
		description: "Applies the correction that the bank of the account requested. The destination shows it as " +
			"`correction`.",
		errors: []string{"invalid_state", "not_found"},
	},
	{
		method: "POST", path: "/api/user/distribution/correction/dispute", name: "dispute-user-correction",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(disputeUserCorrection),
		summary: "Dispute the correction of a user's destination",
		description: "Keeps the destination as it is, because the correction that the bank requested is wrong. Payments to " +
			"it wait until it is replaced or the correction is applied.",
		errors: []string{"invalid_state", "not_found"},
	},
	{
		method: "POST", path: "/api/user/distribution/confirm", name: "confirm-user-destination",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(confirmUserDestination),
		summary: "Confirm a bank account of a user",
		description: "Confirms an account whose check a bank did not pass or did not answer (`account_check`), so that the " +
			"user's income that waits for it is paid. It does not release payments of payrolls, which a member of the company " +
			"confirms. A later result of a check needs another confirmation.",
		errors: []string{"invalid_state", "not_found"},
	},
	{
		method: "DELETE", path: "/api/user/distribution", name: "delete-user-destination",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(deleteUserDestination),
		summary:     "Delete a destination of a user",
		description: "The destination's allocation must be 0.",
		errors:      []string{"allocation_not_zero", "not_found"},
	},
	{
		method: "PATCH", path: "/api/user/distribution/allocations", name: "set-user-allocations",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(setUserAllocations),
		summary: "Set the allocations of a user",
		description: "Sets how each payment is split between the user's destinations. Applies to payments that are " +
			"released later.",
		errors: []string{
			"allocation_invalid", "allocation_total", "amount_not_positive", "amount_precision", "currency_not_supported",
			"distribution_limit", "not_found",
		},
	},
	{
		method: "GET", path: "/api/user/distribution/list", name: "list-user-destinations",
		scope: identity.UserDistributionList, kind: read, handler: handle(listUserDestinations),
		summary:     "List the destinations of a user",
		description: "Returns all payment destinations of a user, with bank data masked.",
		errors:      []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/detail", name: "get-user-destination",
		scope: identity.UserDistributionDetail, kind: read, handler: handle(getUserDestination),
		summary:     "Get a destination of a user",
		description: "Returns a payment destination, with bank data masked.",
		errors:      []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/history", name: "list-user-destination-changes",
		scope: identity.UserDistributionList, kind: read, handler: handle(listUserDestinationChanges),
		summary:     "List changes to a user's destinations",
		description: "Returns who changed which destination, and the details before and after, newest first.",
		errors:      []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/fields", name: "get-user-destination-fields",
		scope: identity.UserDistributionList, kind: read, handler: handle(getUserDestinationFields),
		summary: "List the required fields of a destination",
		description: "Returns the fields that a destination in a currency requires in the user's country, for a form " +
			"and for `distribution_data`.",
		errors: []string{"currency_not_supported", "missing_field", "not_found", "profile_incomplete"},
	},

	{
		method: "GET", path: "/api/company/workers", name: "list-workers",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(listWorkers),
		summary:     "List workers",
		description: "Returns the company's workers, who sign in themselves, oldest first.",
	},
	{
		method: "POST", path: "/api/company/worker/invite", name: "invite-worker",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(inviteWorker),
		summary: "Invite a worker",
		description: "Sends an invitation by email. The person becomes a worker of the company when they accept. An " +
			"address with an open invitation, or of a worker, is rejected with `invalid_state`.",
		errors: []string{"invalid_state", "resend_limit_reached"},
	},
	{
		method: "POST", path: "/api/company/worker/invite/bulk", name: "invite-workers",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(inviteWorkers),
		summary: "Invite many workers",
		description: "Sends up to 100 invitations. The result lists, in the same order, the invitation of each address or " +
			"why it was not invited: it is a worker, or has an open invitation. The others are invited all the same.",
		example: `{"invitations":[{"email":"ada@example.com"},{"email":"grace@example.com","role":"employee"}]}`,
	},
	{
		method: "POST", path: "/api/company/worker/invite/resend", name: "resend-invitation",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(resendInvitation),
		summary:     "Resend an invitation",
		description: "Sends an open invitation again. An invitation can be resent 3 times.",
		errors:      []string{"invalid_state", "resend_limit_reached"},
	},
	{
		method: "POST", path: "/api/company/worker/invite/revoke", name: "revoke-invitation",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(revokeInvitation),
		summary:     "Revoke an invitation",
		description: "The link of the invitation stops working.",
		errors:      []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/company/worker/invitations", name: "list-invitations",
		scope: identity.CompanyWorkerInvitationsList, kind: read, handler: handle(listInvitations),
		summary:     "List invitations",
		description: "Returns the company's invitations, newest first.",
	},
	{
		method: "GET", path: "/api/company/recipients", name: "list-recipients",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(listRecipients),
		summary: "List recipients",
		description: "Returns the company's recipients: workers and vendors. Filters combine. Sorted by creation " +
			"time, newest first, unless `sort_by` is set.",
	},
	{
		method: "GET", path: "/api/company/recipients/unpayable", name: "list-unpayable-recipients",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(listUnpayable),
		summary: "List recipients who cannot be paid yet",
		description: "Returns the recipients who cannot be paid yet, or whose destination needs a correction, by name, " +
			"each with all reasons, also before a payment stops.",
	},
	{
		method: "POST", path: "/api/company/recipients/remind", name: "remind-recipients",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(remindRecipients),
		summary: "Remind recipients who cannot be paid yet",
		description: "Mails every recipient who cannot be paid yet, and sends open and expired invitations again, to at " +
			"most 500 people. A person is mailed at most once in 24 hours, and an invitation is sent again up to 3 times. The " +
			"next call continues with the others.",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/create", name: "create-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: createdRecipient(),
		summary: "Create a recipient",
		description: "Creates a recipient without a login, which the company manages. Required: a country, and " +
			"either first_name and last_name, or name.",
		example: `{"first_name":"Ada","last_name":"Lovelace","email":"ada@example.com","country":"GB",` +
			`"role":"contractor","external_id":"worker-17"}`,
		errors: []string{"external_id_conflict", "missing_field"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}", name: "get-recipient",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(getRecipient),
		summary:     "Get a recipient",
		description: "Returns a recipient without contact and address details.",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/import", name: "import-recipients",
		scope: identity.CompanyWorkersInvite, kind: write, bodyLimit: importLimit, handler: handle(importRecipients),
		summary: "Import recipients",
		description: "Creates a recipient for each valid row of a CSV file. Invalid rows and rows with an existing " +
			"external_id create nothing and are listed in the results.",
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/export", name: "export-recipients",
		scope: identity.CompanyWorkerList, kind: read, handler: handle(exportRecipients),
		summary:     "Export recipients",
		description: "Returns the recipients that match the filters as a CSV file.",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/update", name: "update-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(updateRecipient),
		summary:     "Update a recipient",
		description: "Changes the given fields. Absent fields stay unchanged; an empty string clears a field.",
		errors:      []string{"external_id_conflict", "missing_field"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/deactivate",
		name:  "deactivate-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(deactivateRecipient),
		summary:     "Deactivate a recipient",
		description: "An inactive recipient cannot be added to a payroll.",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/reactivate",
		name:  "reactivate-recipient",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(reactivateRecipient),
		summary: "Reactivate a recipient",
		description: "The recipient can be paid again. Fails with `invalid_state` while a sanctions screening match " +
			"is open.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution",
		name:  "create-recipient-destination",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(createRecipientDestination),
		summary: "Create a destination of a recipient",
		description: "The first destination gets the whole allocation, later ones 0 until the allocations are set. A " +
			"recipient can have at most 3.",
		example: `{"symbol":"BTC","distribution_data":{"address":"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"}}`,
		errors: []string{
			"address_invalid", "currency_not_supported", "distribution_limit",
			"profile_incomplete",
		},
	},
	{
		method: "DELETE", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution",
		name:  "delete-recipient-destination",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(deleteRecipientDestination),
		summary:     "Delete a destination of a recipient",
		description: "The destination's allocation must be 0.",
		errors:      []string{"allocation_not_zero"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution",
		name:  "list-recipient-destinations",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(listRecipientDestinations),
		summary:     "List the destinations of a recipient",
		description: "Returns all payment destinations of a recipient, with bank data masked.",
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/detail",
		name:  "get-recipient-destination",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(getRecipientDestination),
		summary:     "Get a destination of a recipient",
		description: "Returns a payment destination, with bank data masked.",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/update",
		name:  "update-recipient-destination",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(updateRecipientDestination),
		summary: "Update a destination of a recipient",
		description: "Replaces all details of the destination. Payments to a changed destination may be held for " +
			"a cool-down.",
		errors: []string{"address_invalid", "currency_not_supported", "profile_incomplete"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/correction",
		name:  "correct-recipient-destination",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(correctRecipientDestination),
		summary: "Correct a destination of a recipient",
		description: "Applies the correction that the bank of the account requested. The destination shows it as " +
			"`correction`.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/correction/dispute",
		name:  "dispute-recipient-correction",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(disputeRecipientCorrection),
		summary: "Dispute the correction of a recipient's destination",
		description: "Keeps the destination as it is, because the correction that the bank requested is wrong. Payments to " +
			"it wait until it is replaced or the correction is applied.",
		errors: []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/fields",
		name:  "get-recipient-destination-fields",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(getRecipientDestinationFields),
		summary: "List the required fields of a destination",
		description: "Returns the fields that a destination in a currency requires in the recipient's country, for a " +
			"form and for `distribution_data`.",
		errors: []string{"currency_not_supported", "missing_field", "profile_incomplete"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/history",
		name:  "list-recipient-destination-changes",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(listRecipientDestinationChanges),
		summary:     "List changes to a recipient's destinations",
		description: "Returns who changed which destination, and the details before and after, newest first.",
	},
	{
		method: "PATCH", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/allocations",
		name:  "set-recipient-allocations",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(setRecipientAllocations),
		summary: "Set the allocations of a recipient",
		description: "Sets how each payment is split between the recipient's destinations. Applies to payments that " +
			"are released later.",
		errors: []string{
			"allocation_invalid", "allocation_total", "amount_not_positive", "amount_precision", "currency_not_supported",
			"distribution_limit",
		},
	},

	{
		method: "POST", path: "/api/user/payer/create", name: "create-user-payer",
		scope: identity.UserPayerCreate, kind: write, handler: handle(createPayer),
		summary:     "Create a payer",
		description: "Creates an external payer: an employer or client who pays the user.",
		errors:      []string{"amount_not_positive", "amount_precision", "not_found"},
	},
	{
		method: "POST", path: "/api/user/payer/update", name: "update-user-payer",
		scope: identity.UserPayerUpdate, kind: write, handler: handle(updatePayer),
		summary:     "Update a payer",
		description: "Changes the given fields. Absent fields stay unchanged.",
		errors:      []string{"amount_not_positive", "amount_precision", "not_found", "payer_deleted"},
	},
	{
		method: "GET", path: "/api/user/payer/detail", name: "get-user-payer",
		scope: identity.UserPayerDetail, kind: read, handler: handle(getPayer),
		summary:     "Get a payer",
		description: "Returns an external payer, deleted ones included.",
		errors:      []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/payer/list", name: "list-user-payers",
		scope: identity.UserPayerList, kind: read, handler: handle(listPayers),
		summary:     "List payers",
		description: "Returns the user's payers that are not deleted, newest first.",
		errors:      []string{"not_found"},
	},
	{
		method: "POST", path: "/api/user/payer/delete", name: "delete-user-payer",
		scope: identity.UserPayerUpdate, kind: write, handler: handle(deletePayer),
		summary:     "Delete a payer",
		description: "A deleted payer cannot be used for invoices. Past payments keep its name.",
		errors:      []string{"invalid_state", "not_found"},
	},

	{
		method: "POST", path: "/api/user/invoice/create", name: "create-user-invoice",
		scope: identity.UserInvoiceCreate, kind: write, handler: handle(createInvoice),
		summary: "Create an invoice",
		description: "Creates an invoice of a user to a payer and sends it, unless `draft` is set. Totals are " +
			"computed from the lines.",
		errors: []string{
			"amount_not_positive", "amount_precision", "currency_not_supported",
			"external_id_conflict", "not_found", "payer_deleted",
		},
	},
	{
		method: "POST", path: "/api/user/invoice/send", name: "send-user-invoice",
		scope: identity.UserInvoiceCreate, kind: write, handler: handle(sendInvoice),
		summary:     "Send an invoice",
		description: "Sends a draft. Only a sent invoice can be paid.",
		errors:      []string{"invalid_state", "not_found", "payer_deleted"},
	},
	{
		method: "POST", path: "/api/user/invoice/update", name: "update-user-invoice",
		scope: identity.UserInvoiceCreate, kind: write, handler: handle(updateInvoice),
		summary:     "Update an invoice's metadata",
		description: "Replaces the metadata, in any state. An invoice that was sent does not change in any other way.",
		errors:      []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/invoice/detail", name: "get-user-invoice",
		scope: identity.UserInvoiceDetail, kind: read, handler: handle(getInvoice),
		summary:     "Get an invoice",
		description: "Returns an invoice with its lines.",
		errors:      []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/invoice/list", name: "list-user-invoices",
		scope: identity.UserInvoiceList, kind: read, handler: handle(listInvoices),
		summary:     "List invoices",
		description: "Returns the user's invoices, newest first. Void ones are included only if `status` is `void`.",
		errors:      []string{"missing_field", "not_found"},
	},
	{
		method: "POST", path: "/api/user/invoice/delete", name: "delete-user-invoice",
		scope: identity.UserInvoiceDelete, kind: write, handler: handle(deleteInvoice),
		summary:     "Void an invoice",
		description: "An invoice that is paid, in part or in full, or is in a payroll cannot be voided.",
		errors:      []string{"invalid_state", "not_found"},
	},

	{
		method: "POST", path: "/api/user/funding/account", name: "open-funding-account",
		scope: identity.UserBankDetails, kind: write, handler: handle(openFundingAccount),
		summary: "Open a funding account",
		description: "Requests a virtual bank account in a currency, or accepts its terms. The owner must be " +
			"verified. Transfers to the account are credited to the balance of the owner; those to a user are then paid " +
			"to the user's destinations (GET /api/user/income).",
		errors: []string{"invalid_state", "kyc_required", "not_found"},
	},
	{
		method: "GET", path: "/api/user/funding/account", name: "list-funding-accounts",
		scope: identity.UserBankDetails, kind: read, handler: handle(listFundingAccounts),
		summary:     "List funding accounts",
		description: "Returns the owner's virtual bank accounts with their account numbers and balances.",
		errors:      []string{"not_found"},
	},
	{
		method: "GET", path: "/api/user/funding/account/tos", name: "get-funding-terms",
		scope: identity.UserBankDetails, kind: read, handler: handle(getFundingTerms),
		summary:     "Get the terms of funding accounts",
		description: "Returns the current version of the terms and whether the owner accepted it.",
		errors:      []string{"not_found"},
	},

	{
		method: "GET", path: "/api/user/payments", name: "list-user-payments",
		scope: identity.UserBankDetails, kind: read, handler: handle(listEarnings),
		summary: "List the payments to a user",
		description: "Returns the payments of payrolls and the income of the user in a year (UTC): those that arrived in " +
			"it and, in the present year, those that have not arrived yet, which come first. A company sees its own payments " +
			"to a user whom it created.",
		errors: []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/payments/{payment_id}", name: "get-user-payment",
		scope: identity.UserBankDetails, kind: read, handler: handle(getEarning),
		summary:     "Get a payment to a user",
		description: "Returns a payment with its outputs, rates and transactions, and its history.",
		errors:      []string{"missing_field"},
	},
	{
		method: "GET", path: "/api/user/payments/{payment_id}/receipt", name: "get-user-receipt",
		scope: identity.UserBankDetails, kind: read, handler: handle(getEarningReceipt),
		files:       []string{document.TypePDF},
		summary:     "Get the receipt of a payment to a user",
		description: "Returns the receipt of a payment that was sent, as a PDF in the given language.",
		errors:      []string{"invalid_state", "missing_field"},
	},
	{
		method: "GET", path: "/api/user/summary", name: "get-user-year",
		scope: identity.UserBankDetails, kind: read, handler: handle(getEarningYear),
		summary:     "Get a user's year",
		description: "Returns the payments that arrived in a year, with their sums by currency.",
		errors:      []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/summary/export", name: "export-user-year",
		scope: identity.UserBankDetails, kind: read, handler: handle(exportEarningYear),
		files:   []string{"text/csv", document.TypePDF},
		summary: "Export a user's year",
		description: "Returns the payments that arrived in a year as a CSV file with one row per output, or as a PDF in " +
			"the given language.",
		errors: []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/export", name: "export-user-data",
		scope: identity.UserDetail, kind: read, handler: handle(exportOwnData),
		summary: "Export the data of a user",
		description: "Returns the data of a user: profile, documents, masked destinations and their history, " +
			"payers, invoices and payments. Parts that a credential may not read otherwise are null: they need the " +
			"scopes `u_user_document_list`, `u_user_distribution_detail`, `u_user_payer_detail`, `u_user_invoice_detail` and " +
			"`u_user_bank_details`.",
		errors: []string{"missing_field", "not_found"},
	},
	{
		method: "POST", path: "/api/user/email", name: "change-user-email",
		scope: identity.UserUpdate, kind: write, handler: handle(changeEmail),
		summary: "Change a person's email address",
		description: "Mails a link to the old and to the new address of the person who granted the access token. The " +
			"address changes when both links were opened.",
		errors: []string{"role_required", "same_email"},
	},
	{
		method: "POST", path: "/api/user/distribution/preview", name: "preview-user-split",
		scope: identity.UserDistributionList, kind: read, handler: handle(previewSplit),
		summary: "Preview the split of a payment",
		description: "Returns what each destination of the user would get of a payment at present prices, with the present " +
			"allocations or the given ones. Nothing is stored.",
		errors: []string{
			"allocation_invalid", "allocation_total", "amount_not_positive", "currency_not_supported", "not_found",
		},
	},
	{
		method: "GET", path: "/api/user/income", name: "list-income",
		scope: identity.UserBankDetails, kind: read, handler: handle(listIncome),
		summary: "List income",
		description: "Returns the money that the user received on a funding account or for an invoice, newest first. " +
			"It is paid to the user's destinations by their allocations.",
		errors: []string{"missing_field", "not_found"},
	},
	{
		method: "GET", path: "/api/user/income/{income_id}", name: "get-income",
		scope: identity.UserBankDetails, kind: read, handler: handle(getIncome),
		summary: "Get an income",
		description: "Returns an income with its payouts and its history. While something prevents the payout, the money " +
			"is in the user's balance, and `reason` is what the income waits for.",
		errors: []string{"missing_field"},
	},

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

	{
		method: "GET", path: "/api/user/document/types", name: "list-document-types",
		scope: identity.UserDocumentList, kind: read, handler: handle(listDocumentTypes),
		summary: "List required documents",
		description: "Returns the documents that the verification of a user requires, which depend on the user's " +
			"country and the currencies of the payers.",
		errors: []string{"country_not_supported", "missing_field", "not_found", "payer_deleted", "profile_incomplete"},
	},
	{
		method: "POST", path: "/api/user/document/upload", name: "upload-document",
		scope: identity.UserUpdateDoc, kind: write, bodyLimit: imageLimit,
		handler: withPreprocess(readUpload, handle(uploadDocument)),
		summary: "Upload a document",
		description: "Stores an image of an identity document, a proof of address or a selfie, or sets the tax ID. " +
			"Replaces a document of the same type, side and issuing country. A new document of a verified user requires " +
			"a new verification.",
		example: `{"user_id":"usr_06gf58g6w28xgvfnbjvbc8gg88","doc_type":"passport","category":"front",` +
			`"issuing_country":"GB","base64_image":"iVBORw0KGgo="}`,
		errors: []string{
			"category_not_allowed", "country_not_supported", "document_limit",
			"invalid_state", "not_found", "tax_id_invalid", "unsupported_image",
		},
	},
	{
		method: "GET", path: "/api/user/document/list", name: "list-documents",
		scope: identity.UserDocumentList, kind: read, handler: handle(listDocuments),
		summary: "List documents",
		description: "Returns the types of the documents uploaded for a user, including the tax ID. Their contents " +
			"are never returned.",
		errors: []string{"missing_field", "not_found"},
	},

	{
		method: "POST", path: "/api/user/kyc-initiate", name: "initiate-kyc",
		scope: identity.UserKYCInitiate, kind: write, bodyOptional: true, handler: handle(initiateKYC),
		summary: "Start the verification of a user",
		description: "Submits the profile and the documents to the verification provider. The profile and the " +
			"required documents must be complete. Has no effect while a verification is in progress or the user is " +
			"approved.",
		errors: []string{
			"country_not_supported", "documents_incomplete",
			"invalid_state", "missing_field", "not_found", "profile_incomplete",
		},
	},

	{
		method: "POST", path: "/api/companies", name: "onboard-company",
		scope: identity.CompanyDetail, apiKeyOnly: true, platforms: true, kind: write, handler: handle(onboardCompany),
		summary: "Submit the company's details",
		description: "Stores the details that the verification of the company requires. Can be repeated until the " +
			"verification starts.",
		errors: []string{"already_processing", "invalid_state"},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/ubo", name: "add-ubo",
		scope: identity.CompanyDetail, apiKeyOnly: true, platforms: true, kind: write, handler: handle(addOwner),
		summary: "Add a beneficial owner",
		description: "Adds a beneficial owner or control person to the company. An owner of 25 percent or more and a " +
			"control person must be verified.",
		errors: []string{"already_processing", "invalid_state"},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/ubo/kyc", name: "initiate-ubo-kyc",
		scope: identity.CompanyDetail, apiKeyOnly: true, platforms: true, kind: write, handler: handle(initiateOwnerKYC),
		summary:     "Start the verification of an owner",
		description: "Submits an owner's details and documents to the verification provider.",
		errors:      []string{"already_processing", "documents_incomplete", "invalid_state"},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/documents", name: "upload-company-document",
		scope: identity.CompanyDetail, apiKeyOnly: true, platforms: true, kind: write, bodyLimit: imageLimit,
		handler: withPreprocess(readCompanyUpload, handle(uploadCompanyDocument)),
		summary: "Upload a document of the company",
		description: "Stores an image of a document of the company or of one of its owners, or sets a tax ID. Possible " +
			"until their verification starts.",
		example: `{"doc_type":"certificate_of_incorporation","issuing_country":"GB","base64_image":"iVBORw0KGgo="}`,
		errors: []string{
			"already_processing", "category_not_allowed", "country_not_supported", "document_limit",
			"invalid_state", "tax_id_invalid", "unsupported_image",
		},
	},
	{
		method: "POST", path: "/api/companies/{company_id}/kyb", name: "initiate-kyb",
		scope: identity.CompanyDetail, apiKeyOnly: true, platforms: true, kind: write, bodyOptional: true,
		handler:     handle(initiateKYB),
		summary:     "Start the verification of the company",
		description: "Submits the details and documents of the company. They must be complete.",
		errors: []string{
			"already_processing", "documents_incomplete", "invalid_state",
			"profile_incomplete",
		},
	},

	{
		method: "POST", path: "/api/platform/companies", name: "create-platform-company",
		scope: identity.PlatformCompanies, apiKeyOnly: true, kind: write, keyRequired: true,
		handler: handle(createPlatformCompany),
		summary: "Create a company",
		description: "Creates a company that is connected to your platform, and mails an invitation to its first owner. " +
			"You act for it with a token, until it disconnects the platform.",
		example: `{"name":"Acme Ltd","country":"DE","email":"office@acme.example","owner_email":"ada@acme.example",` +
			`"external_id":"customer-17","fee_bps":50,"return_url":"https://platform.example.com/onboarded"}`,
		errors: []string{"external_id_conflict", "kyc_required", "redirect_uri_invalid"},
	},
	{
		method: "GET", path: "/api/platform/companies", name: "list-platform-companies",
		scope: identity.PlatformCompanies, apiKeyOnly: true, kind: read, handler: handle(listPlatformCompanies),
		summary:     "List the companies of a platform",
		description: "Returns the companies that your app created, newest first, also those that disconnected it.",
	},
	{
		method: "GET", path: "/api/platform/companies/{company}", name: "get-platform-company",
		scope: identity.PlatformCompanies, apiKeyOnly: true, kind: read, handler: handle(getPlatformCompany),
		summary:     "Get a company of a platform",
		description: "Returns a company that your app created.",
	},
	{
		method: "POST", path: "/api/platform/companies/{company}/fee", name: "set-platform-fee",
		scope: identity.PlatformCompanies, apiKeyOnly: true, kind: write, handler: handle(setPlatformFee),
		summary: "Set the fee of a platform",
		description: "Sets your fee on the payrolls that the company creates from now on, on top of its own. What you earn " +
			"is credited to your balance when payments have reached their payees. The company's owners and administrators " +
			"get a mail.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/platform/companies/{company}/invite", name: "invite-platform-owner",
		scope: identity.PlatformCompanies, apiKeyOnly: true, kind: write, handler: handle(invitePlatformOwner),
		summary: "Invite the first owner again",
		description: "Sends the invitation again, to the same or another address. Earlier ones stop working. Possible " +
			"until the company has a member.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/platform/companies/{company}/token", name: "create-platform-token",
		scope: identity.PlatformCompanies, apiKeyOnly: true, kind: write, bodyOptional: true,
		handler: withSecret(handle(createPlatformToken)),
		summary: "Get a token for a company",
		description: "Returns a token with which you act for the company for an hour: send it as `Authorization: Bearer`. " +
			"It can submit verification, request wallets, and do what its scopes permit. It cannot withdraw money or change " +
			"members.",
		errors: []string{"invalid_state"},
	},
	{
		method: "POST", path: "/api/platform/companies/{company}/onboarding-link", name: "create-onboarding-link",
		scope: identity.PlatformCompanies, apiKeyOnly: true, kind: write, bodyOptional: true,
		handler: withSecret(handle(createOnboardingLink)),
		summary: "Get a link to the onboarding pages",
		description: "Returns a link, valid for 24 hours, to pages on which a member verifies the company, invites members " +
			"and sets up its funding, and then returns to you. The person must sign in.",
		errors: []string{"invalid_state", "redirect_uri_invalid"},
	},

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
