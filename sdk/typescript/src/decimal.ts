import { eventData } from "./names_gen.js";
import { decimals } from "./types_gen.js";

/**
 * An exact decimal number as text, for example "1250.50". The API reads and writes JSON numbers; the client converts
 * them without rounding. Calculate with a library of decimals, not with Number.
 */
export type Decimal = string;

const number = /^-?\d+(\.\d+)?$/;

/** Encodes a value as JSON. shape names its type, whose decimals become numbers. */
export function encode(value: unknown, shape?: string): string {
	if (shape === "#" && !Array.isArray(value) && value !== null) {
		if (typeof value !== "string" || !number.test(value)) {
			throw new TypeError(`stipend: ${String(value)} is not a decimal: write amounts as text, such as "1250.50"`);
		}
		return value.replace(/^(-?)0+(?=\d)/, "$1");
	}
	if (Array.isArray(value)) return `[${value.map((item) => encode(item, shape)).join(",")}]`;
	const members = shape === undefined ? undefined : decimals[shape];
	if (!members || typeof value !== "object" || value === null) return JSON.stringify(value);
	const parts: string[] = [];
	for (const [name, member] of Object.entries(value)) {
		if (member !== undefined) parts.push(`${JSON.stringify(name)}:${encode(member, members[name])}`);
	}
	return `{${parts.join(",")}}`;
}

/** Decodes JSON. shape names its type, whose decimals become text with all digits. */
export function decode(json: string, shape?: string): unknown {
	const value: unknown = JSON.parse(json);
	if (shape === undefined || !decimals[shape]) return value;
	// The same value with each number as text.
	const exact: unknown = JSON.parse(
		json.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) => (token[0] === '"' ? token : `"${token}"`)),
	);
	return copyDecimals(value, exact, shape);
}

function copyDecimals(value: any, exact: any, shape: string): unknown {
	if (Array.isArray(value)) return value.map((item, i) => copyDecimals(item, exact[i], shape));
	if (shape === "#") return exact;
	if (typeof value !== "object" || value === null) return value;
	for (const [name, kind] of Object.entries(decimals[shape] ?? {})) {
		if (value[name] === undefined) continue;
		value[name] = copyDecimals(value[name], exact[name], kind === "@" ? (eventData[value.event] ?? "") : kind);
	}
	return value;
}
