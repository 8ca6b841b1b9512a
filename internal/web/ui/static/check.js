// Checks the forms with data-check on the server while they are filled in, and shows the problems of the fields that were changed.
"use strict";

const pause = 400; // ms without typing after which the results are computed again

// sync shows the problem of a field as the checked form has it.
function sync(field, checked) {
	document.getElementById(`${field.id}-problem`)?.remove();
	for (const name of ["aria-invalid", "aria-describedby"]) {
		const value = checked?.getAttribute(name);
		if (value) field.setAttribute(name, value);
		else field.removeAttribute(name);
	}
	const problem = checked && checked.ownerDocument.getElementById(`${field.id}-problem`);
	if (!problem) return;
	problem.setAttribute("role", "status");
	field.after(problem);
}

for (const form of document.querySelectorAll("form[data-check]")) {
	const changed = new Set();
	let last = 0;
	let typing = 0;
	const check = async () => {
		clearTimeout(typing);
		const turn = ++last;
		try {
			const response = await fetch(form.dataset.check, { method: "POST", body: new URLSearchParams(new FormData(form)) });
			if (turn !== last || response.redirected || !(response.ok || [409, 422].includes(response.status))) return;
			const page = new DOMParser().parseFromString(await response.text(), "text/html");
			for (const name of changed) {
				const field = form.elements.namedItem(name);
				if (field?.id) sync(field, page.getElementById(field.id));
			}
			for (const part of form.querySelectorAll("[data-fresh]")) {
				const fresh = page.getElementById(part.id);
				if (fresh) part.replaceChildren(...fresh.childNodes);
			}
		} catch {
			// offline; the problems are shown when the form is sent
		}
	};
	form.addEventListener("change", (event) => {
		if (!event.target.name) return;
		changed.add(event.target.name);
		check();
	});
	// What is computed from the fields follows the typing; problems wait until a field is left.
	if (form.querySelector("[data-fresh]")) {
		form.addEventListener("input", () => {
			clearTimeout(typing);
			typing = setTimeout(check, pause);
		});
	}
}
