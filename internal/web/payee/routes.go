package payee

import (
	"slices"

	"github.com/stipend/stipend/internal/web/company"
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages of people who are paid.
var Routes = slices.Concat(ownDestinations.Routes(accountPath, ui.SignedIn, showDestinations), []ui.Route{
	{Method: "GET", Path: ui.PayPath, Access: ui.SignedIn, Handler: showPayments},
	{Method: "GET", Path: ui.PayPath + "/year.csv", Access: ui.SignedIn, Handler: yearCSV},
	{Method: "GET", Path: ui.PayPath + "/year.pdf", Access: ui.SignedIn, Handler: yearPDF},
	{Method: "GET", Path: ui.PayPath + "/{id}", Access: ui.SignedIn, Handler: showPayment},
	{Method: "GET", Path: ui.PayPath + "/{id}/receipt.pdf", Access: ui.SignedIn, Handler: receiptPDF},
	{Method: "GET", Path: invoicesPath, Access: ui.SignedIn, Handler: listInvoices},
	{Method: "GET", Path: invoicesPath + "/new", Access: ui.SignedIn, Handler: showNewInvoice},
	{Method: "POST", Path: invoicesPath + "/new", Access: ui.SignedIn, Factor: ui.ProvenFactor, Handler: createInvoice,
		FormPage: showNewInvoice, Notice: "sent"},
	{Method: "POST", Path: invoicesPath + "/payers", Access: ui.SignedIn, Factor: ui.ProvenFactor, Handler: addPayer,
		FormPage: showNewInvoice, Notice: "added"},
	{Method: "GET", Path: invoicesPath + "/{id}", Access: ui.SignedIn, Handler: showInvoice},
	{Method: "GET", Path: invoicesPath + "/{id}/invoice.pdf", Access: ui.SignedIn, Handler: ownInvoicePDF},
	{Method: "GET", Path: "/invoice/{token}", Access: ui.Anyone, Handler: showHosted},
	{Method: "GET", Path: "/invoice/{token}/invoice.pdf", Access: ui.Anyone, Handler: hostedPDF},
	{Method: "POST", Path: "/invoice/{token}/pay", Access: ui.Anyone, Scarce: true, Handler: payHosted,
		FormPage: showHosted},
	{Method: "POST", Path: invoicesPath + "/{id}/payments/{claim}/accept", Access: ui.SignedIn, Factor: ui.ProvenFactor,
		Handler: acceptLate, FormPage: showInvoice, Notice: "saved"},
	{Method: "POST", Path: invoicesPath + "/{id}/payments/{claim}/refund", Access: ui.SignedIn, Factor: ui.ProvenFactor,
		Handler: refundPayment, FormPage: showInvoice},
	{Method: "POST", Path: invoicesPath + "/{id}/delete", Access: ui.SignedIn, Factor: ui.ProvenFactor,
		Handler: deleteInvoice, FormPage: showInvoice, Notice: "removed"},
	{Method: "GET", Path: accountPath + "/export.json", Access: ui.SignedIn, Factor: ui.FreshFactor, Handler: exportData},
	{Method: "GET", Path: destinationsPath, Access: ui.SignedIn, Handler: showDestinations},
	{Method: "POST", Path: destinationsPath + "/{distribution}/confirm", Access: ui.SignedIn, Factor: ui.FreshFactor,
		Handler: ownDestinations.ConfirmOwn, FormPage: showDestinations, Notice: "saved"},
	{Method: "GET", Path: taxPath, Access: ui.SignedIn, NeedsKYC: true, Handler: showTax},
	{Method: "POST", Path: taxPath, Access: ui.SignedIn, Factor: ui.ProvenFactor, NeedsKYC: true, Handler: signTax,
		FormPage: showTax, Notice: "saved"},
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

	{Method: "GET", Path: "/payee/{token}/saved", Access: ui.Anyone, Handler: showRequestSaved},
	{Method: "GET", Path: "/payee/{token}", Access: ui.Anyone, Handler: showRequest},
	{Method: "GET", Path: "/payee/{token}/destinations/new", Access: ui.Anyone, Handler: showRequestedFields},
	{Method: "POST", Path: "/payee/{token}/destinations/new", Access: ui.Anyone, Handler: enterRequested,
		FormPage: showRequestedFields},
	{Method: "POST", Path: "/payee/{token}/destinations/check", Kind: ui.ReadOnlyForm, Access: ui.Anyone,
		Handler: checkRequested, FormPage: showRequestedFields},
	{Method: "GET", Path: "/payee/{token}/tax", Access: ui.Anyone, NeedsKYC: true, Handler: showRequestTax},
	{Method: "POST", Path: "/payee/{token}/tax", Access: ui.Anyone, NeedsKYC: true, Scarce: true,
		Handler: signRequestTax, FormPage: showRequestTax},
	{Method: "GET", Path: "/payee/{token}/code", Access: ui.Anyone, Handler: showRequestCode},
	{Method: "POST", Path: "/payee/{token}/code", Kind: ui.MultiStep, Access: ui.Anyone, Handler: confirmRequested,
		FormPage: showRequestCode},

	{Method: "GET", Path: "/invitation/{token}", Access: ui.Anyone, Handler: showInvitation},
	{Method: "POST", Path: "/invitation/{token}/accept", Kind: ui.MultiStep, Access: ui.Anyone, Handler: acceptInvitation,
		FormPage: showInvitation},
	{Method: "POST", Path: "/invitation/{token}/decline", Access: ui.Anyone, Handler: declineInvitation},
	{Method: "POST", Path: "/invitation/{token}/ask", Access: ui.Anyone, Handler: askForInvitation},
	{Method: "GET", Path: "/invitation/{token}/asked", Access: ui.Anyone, Handler: showAsked},
})
