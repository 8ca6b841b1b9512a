package staff

import (
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages of staff and the sandbox pages.
var Routes = []ui.Route{
	{Method: "GET", Path: ui.StaffSignInPath, Kind: ui.Plain, Access: ui.Anyone, Staff: true, Handler: showSignIn},
	{Method: "POST", Path: ui.StaffSignInPath, Kind: ui.MultiStep, Access: ui.Anyone, Staff: true, Handler: signIn,
		FormPage: showSignIn},
	{Method: "POST", Path: ui.StaffPath + "/sign-out", Access: ui.StaffOnly, Handler: signOut},
	{Method: "GET", Path: ui.StaffPath, Access: ui.StaffOnly, Handler: showOperations},
	{Method: "GET", Path: ui.StaffPath + "/reconciliation", Access: ui.StaffOnly,
		Handler: showReconciliation},
	{Method: "GET", Path: ui.StaffPath + "/expected", Access: ui.StaffOnly, Handler: showExpected},
	{Method: "GET", Path: ui.StaffPath + "/position", Access: ui.StaffOnly, Handler: showPosition},
	{Method: "GET", Path: ui.StaffJobsPath, Access: ui.StaffOnly, Handler: showJobs},
	{Method: "POST", Path: ui.StaffJobsPath + "/{id}", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: retryJob, FormPage: showJobs, Notice: "requested"},
	{Method: "GET", Path: ui.StaffPath + "/acts", Access: ui.StaffOnly, Handler: showAuditLog},
	{Method: "GET", Path: ui.StaffPath + "/queues/{queue}", Access: ui.StaffOnly, Handler: showQueue},
	{Method: "POST", Path: ui.StaffPath + "/payouts/pause", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: pausePayouts, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/companies/freeze", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: freezeCompany, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/requests", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: createRequest, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/requests/{id}", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: answerRequest, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/transfers/{id}", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: decideTransfer, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/deposits/{id}", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: decideDeposit, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/debts", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: writeOffDebt, FormPage: showOperations, Notice: "requested"},
	{Method: "POST", Path: ui.StaffPath + "/hits/{id}", Access: ui.StaffOnly, Factor: ui.FreshFactor,
		Handler: decideHit, FormPage: showOperations, Notice: "requested"},

	{Method: "GET", Path: "/sandbox/mails", Access: ui.Anyone, SandboxOnly: true, Handler: showMails},
	{Method: "GET", Path: "/sandbox/verifications", Access: ui.Anyone, SandboxOnly: true, DecidesKYC: true,
		Handler: listVerifications},
	{Method: "GET", Path: "/sandbox/verifications/{subject}", Access: ui.Anyone, SandboxOnly: true, DecidesKYC: true,
		Handler: showVerification},
	{Method: "POST", Path: "/sandbox/verifications/{subject}", Access: ui.Anyone, SandboxOnly: true, DecidesKYC: true,
		Handler: decideVerification},
}
