// Shows the contract by Scalar. Everything that would ask another host is off.
"use strict";
const place = document.getElementById("contract");
Scalar.createApiReference(place, {
	url: "/openapi.json",
	// The contract's "/" would be put before each path as it is, and make it start with two slashes.
	servers: [{url: location.origin}],
	telemetry: false,
	withDefaultFonts: false,
	agent: {disabled: true},
	mcp: {disabled: true},
	hideClientButton: true,
	showDeveloperTools: "never",
	documentDownloadType: "none",
	persistAuth: false,
	// Each press of Send is meant anew, so it gets a key of its own, unless the reader ticks one.
	onBeforeRequest: ({request}) => {
		if (request.method === "POST" && !request.headers.has("Idempotency-Key")) {
			const random = crypto.getRandomValues(new Uint8Array(16));
			request.headers.set("Idempotency-Key", Array.from(random, (b) => b.toString(16).padStart(2, "0")).join(""));
		}
	},
	// Sent as HTTP Basic: the key is the user name, and there is no password. Production names no key.
	authentication: {
		preferredSecurityScheme: "api_key",
		securitySchemes: {api_key: {username: place.dataset.key || "", password: ""}},
	},
});
