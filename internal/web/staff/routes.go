package staff

import (
	"github.com/stipend/stipend/internal/backoffice"
	"github.com/stipend/stipend/internal/web/ui"
)

// Roles of staff that may use pages. Package backoffice checks besides whether a role permits an action.
var (
	everyone   = backoffice.Roles
	finance    = []backoffice.Role{backoffice.Finance}
	compliance = []backoffice.Role{backoffice.Compliance}
	helpers    = []backoffice.Role{backoffice.Support, backoffice.Finance}
	auditors   = []backoffice.Role{backoffice.Finance, backoffice.Compliance}
	people     = []backoffice.Role{backoffice.Support, backoffice.Compliance}
	stoppers   = []backoffice.Role{backoffice.Finance, backoffice.Compliance}
)

// Routes are the pages of staff and the sandbox pages.
var Routes = []ui.Route{
	{Method: "GET", Path: ui.StaffSignInPath, Kind: ui.Plain, Access: ui.Anyone, Staff: true, Handler: showSignIn},
	{Method: "POST", Path: ui.StaffSignInPath, Kind: ui.MultiStep, Access: ui.Anyone, Staff: true, Handler: signIn,
		FormPage: showSignIn},
	{Method: "GET", Path: ui.StaffSSOPath, Kind: ui.Plain, Access: ui.Anyone, Staff: true, NeedsStaffSSO: true,
		Handler: beginSSO},
	{Method: "GET", Path: ui.StaffSSOPath + "/callback", Kind: ui.Plain, Access: ui.Anyone, Staff: true,
		NeedsStaffSSO: true, Handler: finishSSO},
	{Method: "GET", Path: codePath, Access: ui.Anyone, Staff: true, NeedsStaffSSO: true, Handler: showCode},
	{Method: "POST", Path: codePath, Kind: ui.MultiStep, Access: ui.Anyone, Staff: true, NeedsStaffSSO: true,
		Handler: signInByCode, FormPage: showCode},
	{Method: "POST", Path: ui.StaffPath + "/sign-out", Access: ui.StaffOnly, Roles: everyone, Handler: signOut},
	{Method: "GET", Path: ui.StaffPath, Access: ui.StaffOnly, Roles: everyone, Handler: showOperations},
	{Method: "GET", Path: ui.StaffPath + "/reconciliation", Access: ui.StaffOnly, Roles: finance,
		Handler: showReconciliation},
	{Method: "GET", Path: ui.StaffPath + "/expected", Access: ui.StaffOnly, Roles: finance, Handler: showExpected},
	{Method: "GET", Path: ui.StaffPath + "/reversals", Access: ui.StaffOnly, Roles: finance, Handler: showReversals},
	{Method: "POST", Path: ui.StaffPath + "/reversals", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: requestReversal, FormPage: showReversals, Notice: "requested"},
	{Method: "GET", Path: debitsPath, Access: ui.StaffOnly, Roles: finance, Handler: showDebits},
	{Method: "POST", Path: ui.StaffPath + "/mandates/{id}", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: decideMandate, FormPage: showDebits, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/debit-limits", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: setDebitLimit, FormPage: showDebits, Notice: "requested"},
	{Method: "GET", Path: companiesPath, Access: ui.StaffOnly, Roles: everyone, Handler: showCompanies},
	{Method: "GET", Path: companiesPath + "/{id}", Access: ui.StaffOnly, Roles: everyone, Handler: showCompany},
	{Method: "POST", Path: companiesPath + "/{id}/notes", Access: ui.StaffOnly, Roles: everyone, Factor: ui.FreshFactor,
		Handler: addCompanyNote, FormPage: showCompany, Notice: "requested"},
	{Method: "POST", Path: companiesPath + "/{id}/fees", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: requestFees, FormPage: showCompany, Notice: "requested"},
	{Method: "POST", Path: companiesPath + "/{id}/case", Access: ui.StaffOnly, Roles: compliance, Factor: ui.FreshFactor,
		Handler: exportCase, FormPage: showCompany},
	{Method: "POST", Path: peoplePath + "/{id}/case", Access: ui.StaffOnly, Roles: compliance, Factor: ui.FreshFactor,
		Handler: exportCase, FormPage: showPerson},
	{Method: "GET", Path: peoplePath, Access: ui.StaffOnly, Roles: people, Handler: showPeople},
	{Method: "GET", Path: peoplePath + "/{id}", Access: ui.StaffOnly, Roles: people, Handler: showPerson},
	{Method: "POST", Path: peoplePath + "/{id}/notes", Access: ui.StaffOnly, Roles: people, Factor: ui.FreshFactor,
		Handler: addPersonNote, FormPage: showPerson, Notice: "requested"},
	{Method: "POST", Path: peoplePath + "/{id}/support", Access: ui.StaffOnly, Roles: people, Factor: ui.FreshFactor,
		Handler: supportPerson, FormPage: showPerson, Notice: "requested"},
	{Method: "POST", Path: companiesPath + "/{id}/close", Access: ui.StaffOnly, Roles: compliance, Factor: ui.FreshFactor,
		Handler: closeCompany, FormPage: showCompany, Notice: "requested"},
	{Method: "GET", Path: retentionPath, Access: ui.StaffOnly, Roles: compliance, Handler: showRetention},
	{Method: "POST", Path: holdsPath, Access: ui.StaffOnly, Roles: compliance, Factor: ui.FreshFactor, Handler: decideHold,
		FormPage: showRetention, Notice: "requested"},
	{Method: "GET", Path: travelRulePath, Access: ui.StaffOnly, Roles: compliance, Handler: showTravelRule},
	{Method: "GET", Path: travelRulePath + "/{id}", Access: ui.StaffOnly, Roles: compliance, Handler: showTravelRecord},
	{Method: "POST", Path: travelRulePath + "/{id}", Access: ui.StaffOnly, Roles: compliance, Factor: ui.FreshFactor,
		Handler: exportTravelRecord, FormPage: showTravelRecord},
	{Method: "GET", Path: paymentsPath, Access: ui.StaffOnly, Roles: everyone, Handler: showPayments},
	{Method: "GET", Path: assetsPath, Access: ui.StaffOnly, Roles: finance, Handler: showAssets},
	{Method: "POST", Path: assetsPath, Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor, Handler: switchAsset,
		FormPage: showAssets, Notice: "requested"},
	{Method: "GET", Path: ui.StaffPath + "/position", Access: ui.StaffOnly, Roles: finance, Handler: showPosition},
	{Method: "GET", Path: ui.StaffJobsPath, Access: ui.StaffOnly, Roles: helpers, Handler: showJobs},
	{Method: "POST", Path: ui.StaffJobsPath + "/{id}", Access: ui.StaffOnly, Roles: helpers, Factor: ui.FreshFactor,
		Handler: retryJob, FormPage: showJobs, Notice: "requested"},
	{Method: "GET", Path: ui.StaffPath + "/acts", Access: ui.StaffOnly, Roles: auditors, Handler: showAuditLog},
	{Method: "GET", Path: ui.StaffPath + "/queues/{queue}", Access: ui.StaffOnly, Roles: everyone, Handler: showQueue},
	{Method: "POST", Path: ui.StaffPath + "/payouts/pause", Access: ui.StaffOnly, Roles: stoppers, Factor: ui.FreshFactor,
		Handler: pausePayouts, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/companies/freeze", Access: ui.StaffOnly, Roles: compliance,
		Factor: ui.FreshFactor, Handler: freezeCompany, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/requests", Access: ui.StaffOnly, Roles: everyone, Factor: ui.FreshFactor,
		Handler: createRequest, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/requests/{id}", Access: ui.StaffOnly, Roles: everyone, Factor: ui.FreshFactor,
		Handler: answerRequest, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/transfers/{id}", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: decideTransfer, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/deposits/{id}", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: decideDeposit, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/lightning/{id}", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: decideLightning, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/debts", Access: ui.StaffOnly, Roles: finance, Factor: ui.FreshFactor,
		Handler: writeOffDebt, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/hits/{id}", Access: ui.StaffOnly, Roles: compliance, Factor: ui.FreshFactor,
		Handler: decideHit, FormPage: showOperations, Notice: "requested"},

	{Method: "GET", Path: ComponentsPath, Access: ui.Anyone, SandboxOnly: true, Handler: showComponents},
	{Method: "GET", Path: "/sandbox/mails", Access: ui.Anyone, SandboxOnly: true, Handler: showMails},
	{Method: "GET", Path: "/sandbox/verifications", Access: ui.Anyone, SandboxOnly: true, DecidesKYC: true,
		Handler: listVerifications},
	{Method: "GET", Path: "/sandbox/verifications/{subject}", Access: ui.Anyone, SandboxOnly: true, DecidesKYC: true,
		Handler: showVerification},
	{Method: "POST", Path: "/sandbox/verifications/{subject}", Access: ui.Anyone, SandboxOnly: true, DecidesKYC: true,
		Handler: decideVerification},
}
