// Adds buttons that pay with the wallets in this browser (EIP-6963). A wallet asks the payer before it sends anything.
"use strict";
{
	const part = document.querySelector("[data-live]");
	const announcer = document.querySelector("[data-announce]");
	const wallets = [];
	const declined = 4001; // EIP-1193: the payer refused
	let busy = false;
	let sent = ""; // the payment that was sent, which is not sent again

	function say(text) {
		announcer.textContent = text;
		const line = part.querySelector("[data-wallets] p");
		if (!line) return;
		line.textContent = text;
		line.hidden = !text;
	}

	async function pay(provider) {
		const { chain, token, call, sent: done, failed } = part.querySelector("[data-wallets]").dataset;
		busy = true;
		show();
		say("");
		try {
			const [from] = await provider.request({ method: "eth_requestAccounts" });
			await provider.request({ method: "wallet_switchEthereumChain", params: [{ chainId: chain }] });
			// The price may have ended, or money may have arrived, while the wallet asked the payer.
			if (part.querySelector("[data-wallets]")?.dataset.call !== call) throw new Error("the payment has changed");
			await provider.request({ method: "eth_sendTransaction", params: [{ from, to: token, data: call, value: "0x0" }] });
			sent = call;
			say(done);
		} catch (error) {
			if (error?.code !== declined) say(failed);
		} finally {
			busy = false;
			show();
		}
	}

	// show adds the buttons to the part of the page that live.js replaces.
	function show() {
		const box = part.querySelector("[data-wallets]");
		if (!box || !wallets.length) return;
		box.hidden = false;
		wallets.forEach(({ info, provider }, i) => {
			let button = document.getElementById(`wallet-${i}`);
			if (!button) {
				button = document.createElement("button");
				button.type = "button";
				button.id = `wallet-${i}`;
				button.className = "btn lg block";
				button.textContent = box.dataset.pay.replace("{wallet}", () => String(info.name).slice(0, 40));
				button.addEventListener("click", () => pay(provider));
				box.append(button);
			}
			button.disabled = busy || sent === box.dataset.call;
		});
	}

	window.addEventListener("eip6963:announceProvider", ({ detail }) => {
		if (!detail?.info?.name || !detail.provider || wallets.some(({ info }) => info.uuid === detail.info.uuid)) return;
		wallets.push(detail);
		show();
	});
	window.dispatchEvent(new Event("eip6963:requestProvider"));
	new MutationObserver(show).observe(part, { childList: true });
}
