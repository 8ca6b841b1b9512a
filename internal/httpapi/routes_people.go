package httpapi

import (
	"github.com/stipend/stipend/internal/document"
	"github.com/stipend/stipend/internal/identity"
)

// peopleRoutes are the operations on users, recipients, destinations, payers, invoices and incomes.
var peopleRoutes = []route{
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
		method: "POST", path: "/api/user/distribution/wallet", name: "declare-user-wallet",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(declareUserWallet),
		summary: "State who hosts a user's wallet",
		description: "Stores whether the user controls the wallet of a crypto destination or a provider hosts it. For a " +
			"self-hosted wallet the answer has a text (`challenge`), which the user signs with the wallet; see POST " +
			"/api/user/distribution/wallet/proof. The statement ends when the address changes. Payments from the " +
			"operator's travel rule threshold on wait without it (`travel_rule_wallet`).",
		example: `{"user_id":"usr_06gf58g6w28xgvfnbjvbc8gg88","distribution_id":"dst_06gf58gfpr6v2e9qch9jm0b8jw",` +
			`"hosting":"self_hosted"}`,
		errors: []string{"invalid_state", "not_found"},
	},
	{
		method: "GET", path: "/api/user/distribution/wallet", name: "get-user-wallet",
		scope: identity.UserDistributionDetail, kind: read, handler: handle(getUserWallet),
		summary:     "Get who hosts a user's wallet",
		description: "Returns the statement about the wallet of a destination, the text to sign, and the proof.",
		errors:      []string{"not_found"},
	},
	{
		method: "POST", path: "/api/user/distribution/wallet/proof", name: "prove-user-wallet",
		scope: identity.UserDistributionUpdate, kind: write, handler: handle(proveUserWallet),
		summary: "Prove control of a user's wallet",
		description: "Verifies the signature of the `challenge` and stores it as proof. EVM wallets sign by personal_sign " +
			"(EIP-191), Bitcoin wallets by BIP-322 (simple) or, for addresses that begin with 1, 3 or bc1q, as a signed " +
			"message (BIP-137). A challenge is used once and valid for an hour.",
		errors: []string{"invalid_state", "not_found", "signature_invalid"},
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
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/wallet",
		name:  "declare-recipient-wallet",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(declareRecipientWallet),
		summary: "State who hosts a recipient's wallet",
		description: "Stores whether the recipient controls the wallet of a crypto destination or a provider hosts it. For " +
			"a self-hosted wallet the answer has a text (`challenge`), which the recipient signs with the wallet; see " +
			"the operation prove-recipient-wallet. The statement ends when the address changes. Payments from the " +
			"operator's travel rule threshold on wait without it (`travel_rule_wallet`).",
		example: `{"distribution_id":"dst_06gf58gfpr6v2e9qch9jm0b8jw","hosting":"self_hosted"}`,
		errors:  []string{"invalid_state"},
	},
	{
		method: "GET", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/wallet",
		name:  "get-recipient-wallet",
		scope: identity.CompanyWorkersInvite, kind: read, handler: handle(getRecipientWallet),
		summary:     "Get who hosts a recipient's wallet",
		description: "Returns the statement about the wallet of a destination, the text to sign, and the proof.",
	},
	{
		method: "POST", path: "/api/company/{company_id}/recipients/{recipient_id}/distribution/wallet/proof",
		name:  "prove-recipient-wallet",
		scope: identity.CompanyWorkersInvite, kind: write, handler: handle(proveRecipientWallet),
		summary: "Prove control of a recipient's wallet",
		description: "Verifies the signature of the `challenge` and stores it as proof. EVM wallets sign by personal_sign " +
			"(EIP-191), Bitcoin wallets by BIP-322 (simple) or, for addresses that begin with 1, 3 or bc1q, as a signed " +
			"message (BIP-137). A challenge is used once and valid for an hour.",
		errors: []string{"invalid_state", "signature_invalid"},
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
}
