package web

// routes is every page. What is not here is a 404; files under /static/ are the only other addresses.
var routes = []route{
	{method: "GET", path: "/{$}", kind: plain, handler: home},

	{method: "GET", path: "/invitation/{token}", kind: read, personal: true, handler: showInvitation},
	{method: "POST", path: "/invitation/{token}/accept", kind: write, personal: true, handler: acceptInvitation, again: showInvitation},
	{method: "POST", path: "/invitation/{token}/decline", kind: write, personal: true, handler: declineInvitation},
	{method: "POST", path: "/invitation/{token}/ask", kind: write, personal: true, handler: askForInvitation},
	{method: "GET", path: "/invitation/{token}/asked", kind: read, personal: true, handler: showAsked},
}
