// Adds keys to the form of a sale, and sends it so that a lost connection neither loses the sale nor creates it twice: the
// sale is kept until the server has confirmed it, and the server creates one claim for each key of a sale.
"use strict";

const form = document.querySelector("[data-sale]");
const fields = ["sale", "amount", "denomination_currency", "tip", "tip_amount", "description"];
const place = `sale-${form.dataset.sale}`; // of the company
const retryAfter = 5000; // ms
const timeout = 20000; // ms

const read = () => JSON.parse(localStorage.getItem(place) ?? "{}");
const keep = (kept) => localStorage.setItem(place, JSON.stringify(kept));

// lock shows whether a sale waits for its confirmation. Until then its values stay.
function lock(waiting) {
	form.querySelector("[data-waiting]").hidden = !waiting;
	for (const input of form.querySelectorAll("input:not([type=hidden]), select")) input.disabled = waiting;
}

let sending = false;
let timer;

async function send() {
	const { waiting } = read();
	if (!waiting || sending) return;
	sending = true;
	clearTimeout(timer);
	const body = new URLSearchParams(waiting);
	body.set("form_token", form.elements.form_token.value);
	try {
		const response = await fetch(form.action, { method: "POST", body, signal: AbortSignal.timeout(timeout) });
		const to = new URL(response.url);
		if (response.redirected) {
			// Another page than that of the sale wants the user to sign in; the sale is kept.
			if (to.pathname.startsWith(`${location.pathname}/`)) keep({ last: to.pathname });
			location.assign(to);
			return;
		}
		if (response.status < 500 && response.status !== 429) {
			keep({}); // refused
			lock(false);
			form.submit(); // shows why
			return;
		}
	} catch {
		// offline, or the answer was lost
	} finally {
		sending = false;
	}
	lock(true);
	timer = setTimeout(send, retryAfter);
}

form.addEventListener("submit", (event) => {
	event.preventDefault();
	const values = new FormData(form);
	if (!read().waiting) keep({ waiting: Object.fromEntries(fields.map((name) => [name, values.get(name) ?? ""])) });
	lock(true);
	send();
});

form.querySelector("[data-discard]").addEventListener("click", () => {
	clearTimeout(timer);
	keep({});
	location.reload(); // for another key
});

const amount = form.elements.amount;
for (const key of form.querySelectorAll("[data-key]")) {
	key.addEventListener("click", () => {
		if (amount.disabled) return;
		amount.value = key.dataset.key === "back" ? amount.value.slice(0, -1) : amount.value + key.dataset.key;
	});
}
form.querySelector("[data-keypad]").hidden = false;

window.addEventListener("online", send);
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });

const { waiting, last } = read();
if (waiting) {
	for (const name of fields) form.elements[name].value = waiting[name];
	form.querySelector("details").open = Boolean(waiting.tip_amount || waiting.description);
	lock(true);
} else if (last) {
	const line = form.querySelector("[data-last]");
	line.hidden = false;
	line.querySelector("a").pathname = last;
}
