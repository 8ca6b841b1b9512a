// Keeps the part of a page with data-live current, shows the countdowns of data-until, and adds the copy buttons of data-copy.
"use strict";

const part = document.querySelector("[data-live]");
const announcer = document.querySelector("[data-announce]");
const ahead = part?.dataset.now ? Date.parse(part.dataset.now) - Date.now() : 0; // server time minus local time, in ms
const pollEvery = 5000; // ms, if streams do not get through
const copiedFor = 5000; // ms to show "copied"

// copy puts text on the clipboard, without the clipboard API where that is not allowed. It reports whether that worked.
async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		const area = document.createElement("textarea");
		area.value = text;
		area.style.position = "fixed"; // prevents scrolling
		document.body.append(area);
		area.select();
		const done = document.execCommand("copy");
		area.remove();
		return done;
	}
}

// offer shows the copy buttons, which need JavaScript.
function offer(root) {
	for (const button of root.querySelectorAll("button[data-copy]")) {
		button.hidden = false;
		button.addEventListener("click", async () => {
			if (!await copy(button.dataset.copy)) return;
			button.focus();
			announcer.textContent = button.dataset.copied;
			setTimeout(() => { announcer.textContent = announcer.dataset.now; }, copiedFor);
		});
	}
}

// count shows the remaining minutes and seconds. Screen readers do not announce it; the server announces five and one minute left.
function count() {
	for (const clock of document.querySelectorAll("[data-until]")) {
		const left = Math.max(0, Math.floor((Date.parse(clock.dataset.until) - Date.now() - ahead) / 1000));
		clock.textContent = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
	}
}

let shown = part?.innerHTML.trim(); // as loaded
const ended = part?.querySelector("[data-redirect]"); // a page that is opened later is the receipt, and stays

// show replaces the live part if it has changed. Otherwise the reader would lose a selection.
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
	const state = part.querySelector("template[data-state]"); // the badge beside the title is outside of the part
	if (state) document.querySelector(".pagehead .badge")?.replaceWith(state.content.cloneNode(true));
	const leads = part.querySelector("[data-redirect]");
	if (leads && !ended) location.assign(leads.dataset.redirect);
	const now = part.querySelector("[data-announcement]")?.dataset.announcement;
	if (now && announcer.dataset.now !== now) {
		announcer.dataset.now = now;
		announcer.textContent = now;
	}
}

let polling = false;
let tag = "";

// poll loads the part if it has changed, and again after pollEvery.
async function poll() {
	try {
		if (document.hidden) return;
		const response = await fetch(part.dataset.live, tag ? { headers: { "If-None-Match": tag } } : {});
		if (response.ok) {
			tag = response.headers.get("ETag");
			show(await response.text());
		}
	} catch {
		// offline; try again later
	} finally {
		setTimeout(poll, pollEvery);
	}
}

let stream = null;

// follow opens the event stream while the page is visible.
function follow() {
	stream?.close();
	stream = null;
	if (document.hidden || polling) return;
	const mine = new EventSource(part.dataset.live);
	stream = mine;
	let received = false;
	mine.addEventListener("message", (event) => {
		received = true;
		show(event.data);
	});
	// The server sends the first event immediately. If none arrives, a proxy buffers or blocks streams.
	setTimeout(() => {
		if (!received && stream === mine) {
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
	// Browsers limit connections per site, so a hidden page closes its stream.
	document.addEventListener("visibilitychange", follow);
}

// Control+K and Command+K open the palette: a search, and links to pages and actions, which typing filters.
const palette = document.getElementById("palette");
if (palette?.togglePopover) {
	const input = palette.elements.q;
	const items = [...palette.querySelectorAll("li")];
	const open = event => {
		event.preventDefault();
		palette.togglePopover();
	};
	document.addEventListener("keydown", event => {
		if (event.key === "k" && (event.ctrlKey || event.metaKey)) open(event);
	});
	for (const link of document.querySelectorAll("[data-palette]")) link.addEventListener("click", open);
	palette.addEventListener("toggle", event => {
		if (event.newState === "open") input.focus();
	});
	input.addEventListener("input", () => {
		const text = input.value.trim().toLowerCase();
		for (const item of items) item.hidden = text !== "" && !item.textContent.toLowerCase().includes(text);
	});
	palette.addEventListener("keydown", event => {
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (!step) return;
		const stops = [input, ...palette.querySelectorAll("li:not([hidden]) a")];
		event.preventDefault();
		stops[(stops.indexOf(document.activeElement) + step + stops.length) % stops.length].focus();
	});
}
