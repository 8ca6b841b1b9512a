package web

// routes is every page. What is not here is a 404; files under /static/ are the only other addresses.
var routes = []route{
	{method: "GET", path: "/{$}", kind: plain, handler: home},

	{method: "GET", path: "/sign-in", kind: read, personal: true, handler: showSignIn},
	{method: "POST", path: "/sign-in", kind: steps, personal: true, handler: signIn, again: showSignIn},
	{method: "POST", path: "/sign-out", kind: write, access: person, personal: true, handler: signOut},
	{method: "POST", path: "/sign-out/everywhere", kind: write, access: person, personal: true, handler: signOutEverywhere},
	{method: "GET", path: "/account", kind: read, access: person, personal: true, handler: showAccount},
	{method: "POST", path: "/account/company", kind: write, access: person, personal: true, handler: actFor},

	{method: "GET", path: "/account/apps", kind: read, access: person, personal: true, handler: showConnected},
	{method: "POST", path: "/account/apps/disconnect", kind: write, access: person, personal: true, handler: disconnect},

	{method: "GET", path: "/authorize", kind: read, personal: true, handler: showConsent},
	{method: "POST", path: "/authorize", kind: write, personal: true, handler: decide},

	{method: "GET", path: "/invitation/{token}", kind: read, personal: true, handler: showInvitation},
	{method: "POST", path: "/invitation/{token}/accept", kind: write, personal: true, handler: acceptInvitation, again: showInvitation},
	{method: "POST", path: "/invitation/{token}/decline", kind: write, personal: true, handler: declineInvitation},
	{method: "POST", path: "/invitation/{token}/ask", kind: write, personal: true, handler: askForInvitation},
	{method: "GET", path: "/invitation/{token}/asked", kind: read, personal: true, handler: showAsked},

	{method: "GET", path: "/sandbox/verifications", kind: read, personal: true, sandbox: true, handler: listVerifications},
	{method: "GET", path: "/sandbox/verifications/{subject}", kind: read, personal: true, sandbox: true, handler: showVerification},
	{method: "POST", path: "/sandbox/verifications/{subject}", kind: write, personal: true, sandbox: true, handler: decideVerification},
}
