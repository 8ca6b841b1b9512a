package payee

import (
	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages of people who are paid.
var Routes = []ui.Route{
	{Method: "GET", Path: personPath, Kind: ui.Read, Access: ui.SignedIn, Private: true, NeedsKYC: true, Handler: showPerson},
	{Method: "POST", Path: personPath + "/documents", Kind: ui.MultiStep, Access: ui.SignedIn, Factor: ui.ProvenFactor, Private: true, NeedsKYC: true, MaxBody: company.ImageFormLimit, Handler: uploadOwnDocument, FormPage: showPerson},
	{Method: "POST", Path: personPath + "/profile", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.ProvenFactor, Private: true, NeedsKYC: true, Handler: saveProfile, FormPage: showPerson},
	{Method: "POST", Path: personPath + "/payer", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.ProvenFactor, Private: true, NeedsKYC: true, Handler: savePayer, FormPage: showPerson},
	{Method: "POST", Path: personPath + "/start", Kind: ui.Write, Access: ui.SignedIn, Factor: ui.ProvenFactor, Private: true, NeedsKYC: true, Handler: startOwn, FormPage: showPerson},

	{Method: "GET", Path: "/invitation/{token}", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showInvitation},
	{Method: "POST", Path: "/invitation/{token}/accept", Kind: ui.Write, Access: ui.Anyone, Private: true, Handler: acceptInvitation, FormPage: showInvitation},
	{Method: "POST", Path: "/invitation/{token}/decline", Kind: ui.Write, Access: ui.Anyone, Private: true, Handler: declineInvitation},
	{Method: "POST", Path: "/invitation/{token}/ask", Kind: ui.Write, Access: ui.Anyone, Private: true, Handler: askForInvitation},
	{Method: "GET", Path: "/invitation/{token}/asked", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showAsked},
}
