// Keeps the part of a page with data-live up to date, counts down to the instants marked with data-until, and offers to copy what
// is marked with data-copy.
"use strict";

const part = document.querySelector("[data-live]");
const told = document.querySelector("[data-told]");
const ahead = part?.dataset.now ? Date.parse(part.dataset.now) - Date.now() : 0; // of the service's clock
const pollEvery = 5000; // where streams do not come through
const toldFor = 5000; // what was copied, before the state is shown again

// copy puts a text on the clipboard, also where the page came unencrypted or stands in one that lets it do nothing.
async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		const area = document.createElement("textarea");
		area.value = text;
		area.style.position = "fixed"; // so that nothing scrolls to it
		document.body.append(area);
		area.select();
		const done = document.execCommand("copy");
		area.remove();
		return done;
	}
}

// offer lets each value marked with data-copy be copied.
function offer(root) {
	for (const button of root.querySelectorAll("button[data-copy]")) {
		button.hidden = false;
		button.addEventListener("click", async () => {
			if (!await copy(button.dataset.copy)) return;
			button.focus();
			told.textContent = button.dataset.copied;
			setTimeout(() => { told.textContent = told.dataset.now; }, toldFor);
		});
	}
}

// count shows minutes and seconds. They are seen only: what must be heard is told when a minute or five are left.
function count() {
	for (const clock of document.querySelectorAll("[data-until]")) {
		const left = Math.max(0, Math.floor((Date.parse(clock.dataset.until) - Date.now() - ahead) / 1000));
		clock.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
	}
}

let shown = part?.innerHTML.trim(); // as it came

// show puts the part as it is now in the place of the one before, if they differ: somebody may be reading it, or copying from it.
function show(body) {
	const fresh = document.createElement("template");
	fresh.innerHTML = body;
	const next = fresh.innerHTML.trim();
	if (next === shown) return;
	shown = next;
	const focused = part.contains(document.activeElement) ? document.activeElement.id : "";
	const opened = part.querySelector("details")?.open;
	part.innerHTML = body;
	offer(part);
	count();
	if (opened && part.querySelector("details")) part.querySelector("details").open = true;
	if (focused) document.getElementById(focused)?.focus();
	const now = part.querySelector("[data-says]")?.dataset.says;
	if (now && told.dataset.now !== now) {
		told.dataset.now = now;
		told.textContent = now;
	}
}

let polling = false;
let tag = "";

// poll asks for the part once in a while, and gets it only when it has changed.
async function poll() {
	try {
		if (document.hidden) return;
		const answer = await fetch(part.dataset.live, tag ? { headers: { "If-None-Match": tag } } : {});
		if (answer.ok) {
			tag = answer.headers.get("ETag");
			show(await answer.text());
		}
	} catch {
		// The network is away for the moment.
	} finally {
		setTimeout(poll, pollEvery);
	}
}

let stream = null;

// follow hears of changes as long as the page is looked at.
function follow() {
	stream?.close();
	stream = null;
	if (document.hidden || polling) return;
	const mine = new EventSource(part.dataset.live);
	stream = mine;
	let heard = false;
	mine.addEventListener("message", (news) => {
		heard = true;
		show(news.data);
	});
	// The first event comes at once. Where none does, something on the way holds streams back or refuses them.
	setTimeout(() => {
		if (!heard && stream === mine) {
			mine.close();
			polling = true;
			poll();
		}
	}, pollEvery);
}

offer(document);
if (part) {
	if (part.dataset.now) {
		count();
		setInterval(count, 1000);
	}
	follow();
	// A browser has few connections for each site, and every stream holds one: a page that nobody looks at lets go of it.
	document.addEventListener("visibilitychange", follow);
}
