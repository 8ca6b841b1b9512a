package merchant

import (
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages on which the payer of a claim pays it, the files of their branding, and the point of sale.
var Routes = []ui.Route{
	{Method: "GET", Path: "/pay/{claim}", Access: ui.Anyone, Handler: showPay},
	{Method: "POST", Path: "/pay/{claim}", Access: ui.Anyone, Scarce: true, Handler: openLink, FormPage: showPay},
	{Method: "GET", Path: "/pay/{claim}/live", Kind: ui.Stream, Access: ui.Anyone, Handler: showCheckout},
	{Method: "POST", Path: "/pay/{claim}/price", Access: ui.Anyone, Handler: renewCheckout, FormPage: showCheckout},
	{Method: "GET", Path: "/pay/{claim}/refund/{token}", Access: ui.Anyone, Handler: showRefund},
	{Method: "POST", Path: "/pay/{claim}/refund/{token}", Access: ui.Anyone, Handler: acceptRefund, FormPage: showRefund},
	{Method: "POST", Path: "/pay/{claim}/refund/{token}/check", Kind: ui.ReadOnlyForm, Access: ui.Anyone,
		Handler: checkRefund, FormPage: showRefund},
	{Method: "GET", Path: salesPath, Access: ui.Manager, Factor: ui.ProvenFactor, Handler: showKeypad},
	{Method: "POST", Path: salesPath, Access: ui.Manager, Factor: ui.ProvenFactor, Handler: createSale,
		FormPage: showKeypad},
	{Method: "GET", Path: salesPath + "/{claim}", Access: ui.Member, Handler: showSale},
	{Method: "GET", Path: salesPath + "/{claim}/live", Kind: ui.Stream, Access: ui.Member, Handler: showSale},
	{Method: "GET", Path: "/theme/{file}", Kind: ui.Plain, Access: ui.Anyone, Public: true, Handler: styleSheet},
	{Method: "GET", Path: "/logo/{file}", Access: ui.Anyone, Public: true, Handler: logo},
}
