// Shows the values of the branding form in the preview while they are typed.
"use strict";

const form = document.querySelector("[data-branding]");
const theme = document.getElementById("theme");

form.addEventListener("input", (event) => {
	const { name, value } = event.target;
	if (name === "accent_color" && /^#[0-9a-f]{6}$/i.test(value)) {
		theme.href = `/theme/${value.slice(1).toLowerCase()}.css`;
		document.querySelector("[data-contrast]").hidden = true; // it describes the color before
	}
	const part = document.querySelector(`[data-show="${CSS.escape(name)}"]`);
	if (part) part.textContent = value || (name === "display_name" ? form.dataset.name : "");
});
