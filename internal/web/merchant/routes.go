package merchant

import (
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages on which the payer of a claim pays it.
var Routes = []ui.Route{
	{Method: "GET", Path: "/pay/{claim}", Access: ui.Anyone, Handler: showCheckout},
	{Method: "GET", Path: "/pay/{claim}/live", Kind: ui.Stream, Access: ui.Anyone, Handler: showCheckout},
	{Method: "POST", Path: "/pay/{claim}/price", Access: ui.Anyone, Handler: renewCheckout, FormPage: showCheckout},
	{Method: "GET", Path: "/pay/{claim}/refund/{token}", Access: ui.Anyone, Handler: showRefund},
	{Method: "POST", Path: "/pay/{claim}/refund/{token}", Access: ui.Anyone, Handler: acceptRefund, FormPage: showRefund},
	{Method: "POST", Path: "/pay/{claim}/refund/{token}/check", Kind: ui.ReadOnlyForm, Access: ui.Anyone,
		Handler: checkRefund, FormPage: showRefund},
}
