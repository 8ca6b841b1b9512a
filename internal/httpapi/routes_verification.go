package httpapi

import (
	"github.com/stipend/stipend/internal/identity"
)

// verificationRoutes are the operations on documents, verifications and the companies of a platform.
var verificationRoutes = []route{
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
}
