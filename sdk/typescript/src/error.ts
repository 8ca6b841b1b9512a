import type { errorCodes } from "./names_gen.js";

/** The machine-readable reason of an error. `unexpected_response` is a response that is not from the service. */
export type ErrorCode = keyof typeof errorCodes | "unexpected_response";

/** One problem of a request. */
export interface FieldError {
	code: ErrorCode;
	/** body, query, path or header */
	in: string;
	/** JSON pointer into the body, or the parameter's name. */
	pointer: string;
	message: string;
}

/** An error response of the API (RFC 9457 problem details). */
export class StipendError extends Error {
	override readonly name = "StipendError";
	/** URL of the page that explains the code. */
	readonly type: string;
	/** Short summary of the code. */
	readonly title: string;
	readonly code: ErrorCode;
	/** What went wrong, for people. */
	readonly detail: string;
	/** Identifies the request in the service's log. */
	readonly requestId: string;
	/** Every problem of the request; `code` and `detail` repeat the first. */
	readonly errors: FieldError[];
	/** The missing fields and documents, with `profile_incomplete` and `documents_incomplete`. */
	readonly missing: string[];
	/** Further members, such as `payroll_id` with `external_id_conflict`. */
	readonly hints: Record<string, string> = {};

	/** @internal */
	constructor(
		/** HTTP status. */
		readonly status: number,
		headers: Headers,
		body: string,
		/** The pause in seconds that the service requests, if any. */
		readonly retryAfter?: number,
	) {
		let problem: Record<string, any> = {};
		try {
			problem = JSON.parse(body);
		} catch {
			// Not from the service: for example, from a proxy.
		}
		if (typeof problem?.code !== "string") problem = { code: "unexpected_response", detail: "unexpected response" };
		const { type = "", title = "", status: _, code, detail = "", request_id, errors = [], missing = [], ...hints } = problem;
		const requestId = request_id ?? headers.get("x-request-id") ?? "";
		const places = (errors as FieldError[]).map((e) => e.pointer).filter(Boolean).join(", ");
		super(`${detail} (${status} ${code}${places && " at " + places}, request ${requestId})`);
		this.type = type;
		this.title = title;
		this.code = code;
		this.detail = detail;
		this.requestId = requestId;
		this.errors = errors;
		this.missing = missing;
		for (const [name, value] of Object.entries(hints)) {
			if (typeof value === "string") this.hints[name] = value;
		}
	}
}
