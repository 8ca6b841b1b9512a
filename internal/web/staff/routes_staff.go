package staff

import (
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages of the operator's staff, and those of a sandbox that play a provider.
var Routes = []ui.Route{
	{Method: "GET", Path: ui.StaffSignInPath, Kind: ui.Plain, Access: ui.Anyone, Staff: true, Private: true, Handler: showOperatorSignIn},
	{Method: "POST", Path: ui.StaffSignInPath, Kind: ui.MultiStep, Access: ui.Anyone, Staff: true, Private: true, Handler: signInOperator, FormPage: showOperatorSignIn},
	{Method: "POST", Path: ui.StaffPath + "/sign-out", Kind: ui.Write, Access: ui.StaffOnly, Staff: true, Private: true, Handler: signOutOperator},
	{Method: "GET", Path: ui.StaffPath, Kind: ui.Read, Access: ui.StaffOnly, Staff: true, Private: true, Handler: showOperations},
	{Method: "GET", Path: ui.StaffPath + "/reconciliation", Kind: ui.Read, Access: ui.StaffOnly, Staff: true, Private: true, Handler: showReconciliation},
	{Method: "GET", Path: ui.StaffPath + "/position", Kind: ui.Read, Access: ui.StaffOnly, Staff: true, Private: true, Handler: showPosition},
	{Method: "GET", Path: ui.StaffJobsPath, Kind: ui.Read, Access: ui.StaffOnly, Staff: true, Private: true, Handler: showJobs},
	{Method: "POST", Path: ui.StaffJobsPath + "/{id}", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: retryJob, FormPage: showJobs},
	{Method: "GET", Path: ui.StaffPath + "/acts", Kind: ui.Read, Access: ui.StaffOnly, Staff: true, Private: true, Handler: showActs},
	{Method: "GET", Path: ui.StaffPath + "/queues/{queue}", Kind: ui.Read, Access: ui.StaffOnly, Staff: true, Private: true, Handler: showQueue},
	{Method: "POST", Path: ui.StaffPath + "/payouts/pause", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: pausePayouts, FormPage: showOperations},
	{Method: "POST", Path: ui.StaffPath + "/companies/freeze", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: freezeCompany, FormPage: showOperations},
	{Method: "POST", Path: ui.StaffPath + "/requests", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: askOperator, FormPage: showOperations},
	{Method: "POST", Path: ui.StaffPath + "/requests/{id}", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: answerOperator, FormPage: showOperations},
	{Method: "POST", Path: ui.StaffPath + "/transfers/{id}", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: decideTransfer, FormPage: showOperations},
	{Method: "POST", Path: ui.StaffPath + "/deposits/{id}", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: decideDeposit, FormPage: showOperations},
	{Method: "POST", Path: ui.StaffPath + "/debts", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: writeOffDebt, FormPage: showOperations},
	{Method: "POST", Path: ui.StaffPath + "/hits/{id}", Kind: ui.Write, Access: ui.StaffOnly, Factor: ui.FreshFactor, Staff: true, Private: true, Handler: decideHit, FormPage: showOperations},

	{Method: "GET", Path: "/sandbox/mails", Kind: ui.Read, Access: ui.Anyone, Private: true, SandboxOnly: true, Handler: showMails},
	{Method: "GET", Path: "/sandbox/verifications", Kind: ui.Read, Access: ui.Anyone, Private: true, SandboxOnly: true, DecidesKYC: true, Handler: listVerifications},
	{Method: "GET", Path: "/sandbox/verifications/{subject}", Kind: ui.Read, Access: ui.Anyone, Private: true, SandboxOnly: true, DecidesKYC: true, Handler: showVerification},
	{Method: "POST", Path: "/sandbox/verifications/{subject}", Kind: ui.Write, Access: ui.Anyone, Private: true, SandboxOnly: true, DecidesKYC: true, Handler: decideVerification},
}
