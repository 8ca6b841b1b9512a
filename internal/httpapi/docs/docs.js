// Shows the contract by Scalar. Everything that would ask another host is off.
"use strict";
const place = document.getElementById("contract");
Scalar.createApiReference(place, {
	url: "/openapi.json",
	// The contract's "/" would be put before each path as it is, and make it start with two slashes.
	servers: [{url: location.origin}],
	telemetry: false,
	withDefaultFonts: false,
	// Scalar's own light colors have too little contrast for small text.
	customCss: `.light-mode { --scalar-color-2: #595959; --scalar-color-3: #666; --scalar-color-blue: #0068ab;
		--scalar-color-green: #00704a; --scalar-color-orange: #b03c00; --scalar-color-yellow: #7a5600;
		--scalar-color-red: #c00000; --scalar-color-purple: #5203d1; }`,
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
