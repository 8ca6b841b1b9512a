import { decode } from "./decimal.js";
import type { EventTypes } from "./names_gen.js";

const tolerance = 300; // seconds; it prevents replays

/**
 * A state change of an object. Compare `event` to narrow `data`. An event can be delivered more than once: store the
 * IDs of processed events. Ignore events that you do not know.
 */
export type Event = {
	[Name in keyof EventTypes]: {
		event: Name;
		id: string;
		/** When the change was committed. */
		created: string;
		environment: "sandbox" | "production";
		api_version: string;
		/** Company whose event it is, or "". */
		company_id: string;
		/** User whose event it is, who connected the app, or "". */
		user_id: string;
		/** Increases with each event of the object. */
		sequence: number;
		data: EventTypes[Name];
	};
}[keyof EventTypes];

/**
 * Checks the signature of a webhook delivery (Standard Webhooks 1.0) and parses its event. body is the request body
 * exactly as received. During a rotation pass the old and the new secret. Throws unless the delivery was signed with
 * one of the secrets less than five minutes ago.
 */
export async function verifyWebhook(
	body: string | Uint8Array,
	headers: Headers | Record<string, string | string[] | undefined>,
	...secrets: string[]
): Promise<Event> {
	const header = (name: string) => String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? "");
	const id = header("webhook-id");
	const timestamp = header("webhook-timestamp");
	const age = Date.now() / 1000 - Number(timestamp);
	if (id && /^\d+$/.test(timestamp) && Math.abs(age) <= tolerance) {
		const text = typeof body === "string" ? body : new TextDecoder().decode(body);
		const signed = new TextEncoder().encode(`${id}.${timestamp}.${text}`);
		for (const secret of secrets) {
			const raw = bytes(secret.replace(/^whsec_/, ""));
			if (!raw?.length) throw new TypeError("stipend: a webhook secret must be whsec_ followed by base64");
			const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
			for (const signature of header("webhook-signature").split(" ")) {
				const mac = signature.startsWith("v1,") && bytes(signature.slice(3));
				if (mac && (await crypto.subtle.verify("HMAC", key, mac, signed))) return parseEvent(text);
			}
		}
	}
	throw new Error("stipend: invalid webhook signature");
}

/** Decodes base64, or returns undefined. */
function bytes(base64: string): Uint8Array<ArrayBuffer> | undefined {
	try {
		return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
	} catch {
		return undefined;
	}
}

/** Parses an event whose origin is already trusted, for example an item of a queue. */
export function parseEvent(body: string): Event {
	return decode(body, "EventItem") as Event;
}
