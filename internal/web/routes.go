package web

// routes is every page. What is not here is a 404; files under /static/ are the only other addresses.
var routes = []route{
	{method: "GET", path: "/{$}", kind: plain, handler: home},

	{method: "GET", path: "/sign-in", kind: read, personal: true, handler: showSignIn},
	{method: "POST", path: "/sign-in", kind: steps, personal: true, handler: signIn, again: showSignIn},
	{method: "GET", path: "/sign-in/code", kind: read, personal: true, handler: showCode},
	{method: "POST", path: "/sign-in/code", kind: steps, personal: true, handler: signInCode, again: showCode},
	{method: "POST", path: "/sign-out", kind: write, access: person, personal: true, handler: signOut},
	{method: "POST", path: "/sign-out/everywhere", kind: write, access: person, personal: true, handler: signOutEverywhere},
	{method: "GET", path: "/account", kind: read, access: person, personal: true, handler: showAccount},
	{method: "POST", path: "/account/company", kind: write, access: person, personal: true, handler: actFor},

	{method: "GET", path: "/account/proof", kind: read, access: person, personal: true, handler: showProof},
	{method: "POST", path: "/account/proof", kind: steps, access: person, personal: true, handler: prove, again: showProof},
	{method: "GET", path: "/account/factor", kind: read, access: person, personal: true, handler: showFactor},
	{method: "POST", path: "/account/factor/begin", kind: write, access: person, personal: true, handler: beginFactor},
	{method: "POST", path: "/account/factor/confirm", kind: write, access: person, personal: true, handler: confirmFactor, again: showFactor},
	{method: "POST", path: "/account/factor/recovery", kind: write, access: person, factor: freshFactor, personal: true, handler: renewRecovery},
	{method: "POST", path: "/account/factor/remove", kind: write, access: person, factor: freshFactor, personal: true, handler: removeFactor},

	{method: "GET", path: "/account/apps", kind: read, access: person, personal: true, handler: showConnected},
	{method: "POST", path: "/account/apps/disconnect", kind: write, access: person, personal: true, handler: disconnect},

	{method: "GET", path: "/settings/api", kind: read, access: member, personal: true, handler: showApps},
	{method: "POST", path: "/settings/api", kind: write, access: manager, factor: provenFactor, personal: true, handler: registerApp, again: showApps},
	{method: "GET", path: "/settings/api/{app}", kind: read, access: member, personal: true, handler: showApp},
	{method: "POST", path: "/settings/api/{app}/secret", kind: write, access: manager, factor: provenFactor, personal: true, handler: rotateSecret},
	{method: "POST", path: "/settings/api/{app}/keys", kind: write, access: manager, factor: provenFactor, personal: true, handler: issueKey},
	{method: "POST", path: "/settings/api/{app}/keys/{key}/rotate", kind: write, access: manager, factor: provenFactor, personal: true, handler: rotateKey},
	{method: "POST", path: "/settings/api/{app}/keys/{key}/revoke", kind: write, access: manager, personal: true, handler: revokeKey},

	{method: "GET", path: "/settings/webhooks", kind: read, access: member, personal: true, handler: showWebhooks},
	{method: "POST", path: "/settings/webhooks", kind: write, access: manager, factor: provenFactor, personal: true, handler: createWebhook, again: showWebhooks},
	{method: "GET", path: "/settings/webhooks/{id}", kind: read, access: member, personal: true, handler: showWebhook},
	{method: "POST", path: "/settings/webhooks/{id}", kind: write, access: manager, factor: provenFactor, personal: true, handler: updateWebhook, again: showWebhook},
	{method: "POST", path: "/settings/webhooks/{id}/delete", kind: write, access: manager, personal: true, handler: deleteWebhook},
	{method: "POST", path: "/settings/webhooks/{id}/rotate", kind: write, access: manager, factor: provenFactor, personal: true, handler: rotateWebhook},
	{method: "POST", path: "/settings/webhooks/{id}/test", kind: write, access: manager, personal: true, handler: testWebhook},
	{method: "POST", path: "/settings/webhooks/{id}/enable", kind: write, access: manager, personal: true, handler: enableWebhook},
	{method: "POST", path: "/settings/webhooks/{id}/disable", kind: write, access: manager, personal: true, handler: disableWebhook},
	{method: "GET", path: "/settings/webhooks/{id}/deliveries", kind: read, access: member, personal: true, handler: showDeliveries, again: askForDeliveries},
	{method: "GET", path: "/settings/webhooks/{id}/redeliver", kind: read, access: member, personal: true, handler: showRedeliver},
	{method: "POST", path: "/settings/webhooks/{id}/redeliver", kind: write, access: manager, personal: true, handler: redeliverRange, again: showRedeliver},
	{method: "GET", path: "/settings/webhooks/{id}/deliveries/{event}", kind: read, access: member, personal: true, handler: showWebhookDelivery},
	{method: "POST", path: "/settings/webhooks/{id}/deliveries/{event}/redeliver", kind: write, access: manager, personal: true, handler: redeliver},

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
