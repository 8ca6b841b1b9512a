// Stipend checkout, version 1. It opens links and forms with data-stipend in a dialog, or, with data-stipend="inline",
// in their place. Without it, they lead to the payment page. See docs/checkout.md.
(() => {
	"use strict";
	const origin = new URL(document.currentScript.src).origin;
	const close = { es: "Cerrar", pt: "Fechar", fr: "Fermer" };

	// address returns the payment page of a link or form, or null if it leads elsewhere.
	function address(element, button) {
		const isForm = element.tagName === "FORM";
		const url = new URL(element.getAttribute(isForm ? "action" : "href") ?? "", document.baseURI);
		if (url.origin !== origin || !url.pathname.startsWith("/pay/")) return null;
		if (isForm) for (const [name, value] of new FormData(element, button)) url.searchParams.set(name, value);
		return url.href;
	}

	// frame returns an iframe with a payment page. Its messages become events of the element, named "stipend:" and the type.
	function frame(element, page, closed) {
		const iframe = document.createElement("iframe");
		const url = new URL(page);
		url.searchParams.set("embed", "1");
		iframe.src = url.href;
		iframe.title = element.dataset.title || element.textContent.trim().slice(0, 100) || "Stipend";
		iframe.allow = "clipboard-write";
		Object.assign(iframe.style, { border: "0", display: "block", width: "100%", height: "640px" });
		let works = false;
		function hear(event) {
			if (event.origin !== origin || event.source !== iframe.contentWindow || event.data?.stipend !== 1) return;
			works = true;
			const { type, claim_id, status, height } = event.data;
			if (type === "resize" && height > 0) iframe.style.height = `${Math.min(height, 10000)}px`;
			if (type === "closed") closed?.();
			else element.dispatchEvent(new CustomEvent(`stipend:${type}`, { bubbles: true, detail: { claim_id, status, height } }));
		}
		window.addEventListener("message", hear);
		// A browser shows nothing if this site is not among the merchant's origins. Then the payment page is opened as it is.
		iframe.addEventListener("load", () => setTimeout(() => { if (!works && iframe.isConnected) location.assign(page); }, 3000), { once: true });
		return { iframe, stop: () => window.removeEventListener("message", hear) };
	}

	function open(element, page) {
		const dialog = document.createElement("dialog");
		const button = document.createElement("button");
		const { iframe, stop } = frame(element, page, () => dialog.close());
		button.type = "button";
		button.textContent = "×";
		button.setAttribute("aria-label", close[document.documentElement.lang.slice(0, 2)] ?? "Close");
		Object.assign(button.style, { float: "right", border: "0", background: "none", color: "#111", width: "44px", height: "44px", fontSize: "24px", cursor: "pointer" });
		Object.assign(dialog.style, { boxSizing: "border-box", width: "min(30rem, 100vw)", maxWidth: "100vw", maxHeight: "100dvh", padding: "0", border: "0", borderRadius: "12px", background: "#fff", overflow: "auto" });
		dialog.setAttribute("aria-label", iframe.title);
		dialog.append(button, iframe);
		dialog.addEventListener("close", () => {
			stop();
			dialog.remove();
			element.dispatchEvent(new CustomEvent("stipend:closed", { bubbles: true, detail: {} }));
		});
		document.body.append(dialog);
		dialog.showModal();
	}

	function start(event, element) {
		const page = element && address(element, event.submitter);
		if (!page) return;
		event.preventDefault();
		open(element, page);
	}

	document.addEventListener("click", (event) => {
		if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
		start(event, event.target.closest("a[data-stipend]"));
	});
	document.addEventListener("submit", (event) => {
		if (!event.defaultPrevented) start(event, event.target.closest("form[data-stipend]"));
	});
	function mount() {
		for (const element of document.querySelectorAll("a[data-stipend=inline]")) {
			const page = address(element);
			if (!page) continue;
			element.after(frame(element, page).iframe);
			element.hidden = true;
		}
	}
	if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", mount);
	else mount();
})();
