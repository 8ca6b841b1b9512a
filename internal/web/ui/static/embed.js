// Tells the page in which this page is embedded what happens. Only the merchant's registered origins receive it.
"use strict";

const listed = document.currentScript.dataset.origins.split(" ");
// Chromium and WebKit know the embedding page. In other browsers, the browser drops what is sent to another origin.
const receivers = location.ancestorOrigins ? listed.filter((one) => one === location.ancestorOrigins[0]) : listed;
let status;

function tell(type, more) {
	const claim = document.querySelector("[data-claim]")?.dataset;
	const message = { stipend: 1, type, ...more };
	if (claim) Object.assign(message, { claim_id: claim.claim, status: claim.status });
	for (const origin of receivers) window.parent.postMessage(message, origin);
}

// follow tells a new status of the claim.
function follow() {
	const now = document.querySelector("[data-claim]")?.dataset.status;
	if (now === status) return;
	status = now;
	tell(now);
}

if (window.parent !== window) {
	status = document.querySelector("[data-claim]")?.dataset.status;
	tell("loaded");
	new MutationObserver(follow).observe(document.body, { childList: true, subtree: true });
	new ResizeObserver(() => tell("resize", { height: Math.ceil(document.body.getBoundingClientRect().height) }))
		.observe(document.body);
	document.addEventListener("keydown", (event) => {
		if (event.key === "Escape") tell("closed");
	});
}
