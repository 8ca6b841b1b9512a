package payee

import (
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages of people who are paid.
var Routes = []ui.Route{
	{Method: "GET", Path: personPath, Access: ui.SignedIn, NeedsKYC: true, Handler: showPerson},
	{Method: "POST", Path: personPath + "/documents", Kind: ui.MultiStep, Access: ui.SignedIn, Factor: ui.ProvenFactor,
		NeedsKYC: true, MaxBody: company.ImageFormLimit, Handler: uploadOwnDocument, FormPage: showPerson,
		Notice: "added"},
	{Method: "POST", Path: personPath + "/profile", Access: ui.SignedIn, Factor: ui.ProvenFactor, NeedsKYC: true,
		Handler: saveProfile, FormPage: showPerson, Notice: "saved"},
	{Method: "POST", Path: personPath + "/payer", Access: ui.SignedIn, Factor: ui.ProvenFactor, NeedsKYC: true,
		Handler: savePayer, FormPage: showPerson, Notice: "added"},
	{Method: "POST", Path: personPath + "/start", Access: ui.SignedIn, Factor: ui.ProvenFactor, NeedsKYC: true,
		Handler: startOwn, FormPage: showPerson, Notice: "sent"},

	{Method: "GET", Path: "/invitation/{token}", Access: ui.Anyone, Handler: showInvitation},
	{Method: "POST", Path: "/invitation/{token}/accept", Access: ui.Anyone, Handler: acceptInvitation,
		FormPage: showInvitation},
	{Method: "POST", Path: "/invitation/{token}/decline", Access: ui.Anyone, Handler: declineInvitation},
	{Method: "POST", Path: "/invitation/{token}/ask", Access: ui.Anyone, Handler: askForInvitation},
	{Method: "GET", Path: "/invitation/{token}/asked", Access: ui.Anyone, Handler: showAsked},
}
