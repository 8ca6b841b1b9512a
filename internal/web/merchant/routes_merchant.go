package merchant

import (
	"github.com/stipend/stipend/internal/web/ui"
)

// Routes are the pages on which the payer of a claim pays it.
var Routes = []ui.Route{
	{Method: "GET", Path: "/pay/{claim}", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showCheckout},
	{Method: "GET", Path: "/pay/{claim}/live", Kind: ui.Stream, Access: ui.Anyone, Private: true, Handler: showCheckout},
	{Method: "POST", Path: "/pay/{claim}/price", Kind: ui.Write, Access: ui.Anyone, Private: true, Handler: renewCheckout, FormPage: showCheckout},
	{Method: "GET", Path: "/pay/{claim}/refund/{token}", Kind: ui.Read, Access: ui.Anyone, Private: true, Handler: showRefund},
	{Method: "POST", Path: "/pay/{claim}/refund/{token}", Kind: ui.Write, Access: ui.Anyone, Private: true, Handler: acceptRefund, FormPage: showRefund},
	{Method: "POST", Path: "/pay/{claim}/refund/{token}/check", Kind: ui.ReadOnlyForm, Access: ui.Anyone, Private: true, Handler: checkRefund, FormPage: showRefund},
}
