// Asks the browser for a passkey and posts its response with the form. Shows the buttons that lead to a passkey. Only passkeys need a script; password and authenticator do not.
"use strict";
(() => {
	const bytes = text => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), c => c.charCodeAt(0));
	const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
	const form = document.querySelector("form[data-passkey]");

	const ask = async () => {
		const publicKey = JSON.parse(form.dataset.passkey).publicKey;
		publicKey.challenge = bytes(publicKey.challenge);
		for (const known of publicKey.excludeCredentials ?? []) known.id = bytes(known.id);
		const response = {};
		let made;
		if (publicKey.user) {
			publicKey.user.id = bytes(publicKey.user.id);
			made = await navigator.credentials.create({ publicKey });
			response.attestationObject = text(made.response.attestationObject);
			response.transports = made.response.getTransports();
		} else {
			made = await navigator.credentials.get({ publicKey });
			response.authenticatorData = text(made.response.authenticatorData);
			response.signature = text(made.response.signature);
			response.userHandle = text(made.response.userHandle);
		}
		response.clientDataJSON = text(made.response.clientDataJSON);
		form.elements.credential.value = JSON.stringify({
			id: made.id, rawId: text(made.rawId), type: made.type, response, clientExtensionResults: {},
			authenticatorAttachment: made.authenticatorAttachment ?? undefined,
		});
		form.submit();
	};

	for (const button of document.querySelectorAll("[data-passkeys]")) button.hidden = !window.PublicKeyCredential;

	form?.addEventListener("submit", event => {
		event.preventDefault();
		const failed = document.getElementById("passkey-failed");
		failed.hidden = true;
		ask().catch(() => { failed.hidden = false; });
	});
})();
