// Keeps the part of a page with data-live up to date, and offers to copy what is marked with data-copy.
"use strict";

const part = document.querySelector("[data-live]");
const told = document.querySelector("[data-told]");

// offer lets each value marked with data-copy be copied.
function offer(root) {
	for (const button of root.querySelectorAll("button[data-copy]")) {
		button.hidden = false;
		button.addEventListener("click", async () => {
			await navigator.clipboard.writeText(button.dataset.copy);
			told.textContent = button.dataset.copied;
		});
	}
}

offer(document);
if (part) {
	const stream = new EventSource(part.dataset.live);
	stream.addEventListener("message", (news) => {
		const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
		part.innerHTML = news.data;
		offer(part);
		if (focused) document.getElementById(focused)?.focus();
		const now = part.querySelector("[data-says]")?.dataset.says;
		if (now && told.dataset.now !== now) {
			told.dataset.now = now;
			told.textContent = now;
		}
	});
}
