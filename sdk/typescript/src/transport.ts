import { decode, encode } from "./decimal.js";
import { StipendError } from "./error.js";

const apiVersion = "2.0";
const maxPause = 30_000; // milliseconds

export interface ClientOptions {
	/** Address of the service, for example http://127.0.0.1:8080. */
	baseURL: string;
	/** API key of a company. Keep it on servers: in a browser, use an access token. */
	apiKey?: string;
	/** OAuth access token, or a function that returns a valid one before each request. */
	accessToken?: string | (() => string | Promise<string>);
	/** How often a request is sent, retries included. 1 disables retries. Default: 4. */
	maxAttempts?: number;
	/** Time limit of each attempt in milliseconds. Default: 60,000. */
	timeout?: number;
	/** Sends requests in place of the global fetch. */
	fetch?: typeof fetch;
}

export interface RequestOptions {
	/**
	 * Idempotency-Key of a write: 1 to 255 visible ASCII characters. Default: a random one. Store the key of a payment
	 * and reuse it until the outcome is known, also after a restart: requests with the same key never pay twice.
	 */
	idempotencyKey?: string;
	/** Ends the request and its retries. */
	signal?: AbortSignal;
}

interface Content {
	query?: object;
	body?: object;
	shape?: string;
}

/** Sends requests for all services. */
export class Transport {
	readonly #options: ClientOptions;

	constructor(options: ClientOptions) {
		if (!options.apiKey === !options.accessToken) throw new TypeError("stipend: set either apiKey or accessToken");
		this.#options = options;
	}

	/** Sends a request and decodes the response, whose type result names. */
	async call<Result>(method: string, target: string, content: Content, options: RequestOptions = {}, result?: string) {
		return decode(await this.text(method, target, content, options), result) as Result;
	}

	/** Returns the body of the response as text. */
	async text(method: string, target: string, content: Content, options?: RequestOptions): Promise<string> {
		return new TextDecoder().decode(await this.bytes(method, target, content, options));
	}

	/** Returns the body of the response. Retries while that is safe and useful. */
	async bytes(
		method: string, target: string, content: Content, options: RequestOptions = {},
	): Promise<Uint8Array<ArrayBuffer>> {
		const { baseURL, apiKey, accessToken, maxAttempts = 4, timeout = 60_000, fetch = globalThis.fetch } = this.#options;
		const url = new URL(baseURL.replace(/\/+$/, "") + target);
		for (const [name, value] of Object.entries(content.query ?? {})) {
			if (value === undefined) continue;
			if (typeof value !== "object") url.searchParams.set(name, String(value));
			else for (const [key, text] of Object.entries(value)) url.searchParams.set(`${name}[${key}]`, String(text));
		}
		const headers: Record<string, string> = { "Api-Version": apiVersion };
		const body = content.body && encode(content.body, content.shape);
		if (body !== undefined) headers["Content-Type"] = "application/json";
		if (method !== "GET") headers["Idempotency-Key"] = options.idempotencyKey ?? crypto.randomUUID();
		for (let attempt = 1; ; attempt++) {
			options.signal?.throwIfAborted();
			const token = typeof accessToken === "function" ? await accessToken() : accessToken;
			headers.Authorization = token ? `Bearer ${token}` : `Basic ${apiKey}`;
			const limit = AbortSignal.timeout(timeout);
			const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
			let error: unknown;
			let pause: number | undefined = 100 * 2 ** attempt;
			try {
				const response = await fetch(url, { method, headers, body, redirect: "error", signal });
				const received = new Uint8Array(await response.arrayBuffer());
				if (response.ok) return received;
				const after = retryAfter(response.headers);
				error = new StipendError(response.status, response.headers, new TextDecoder().decode(received), after);
				// A conflict is final unless the request with the same key still runs.
				const retry = [429, 503].includes(response.status) || (response.status === 409 && after !== undefined);
				pause = !retry ? undefined : after === undefined ? pause : Math.min(after * 1000, maxPause);
			} catch (failure) {
				error = failure; // no response
			}
			if (pause === undefined || attempt >= maxAttempts || options.signal?.aborted) throw error;
			await wait(pause, options.signal);
		}
	}
}

function wait(pause: number, signal?: AbortSignal): Promise<void> {
	return new Promise((resolve, reject) => {
		const timer = setTimeout(resolve, pause);
		signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
	});
}

function retryAfter(headers: Headers): number | undefined {
	const value = headers.get("retry-after");
	return value && /^\d+$/.test(value) ? Number(value) : undefined;
}

/** A group of operations. */
export class Service {
	/** @internal */
	protected readonly t: Transport;

	/** @internal */
	constructor(t: Transport) {
		this.t = t;
	}
}

/** Encodes the parameters of a path. */
export function path(parts: TemplateStringsArray, ...values: string[]): string {
	return parts.reduce((all, part, i) => all + encodeURIComponent(values[i - 1]!) + part);
}

interface Page<Item> {
	data: Item[];
	meta?: { next_cursor: string };
	has_more?: boolean;
	next_after?: string;
}

/** Iterates over the items of all pages. */
export async function* each<Item>(
	fetch: (next: { cursor?: string; after?: string }) => Promise<Page<Item>>,
): AsyncGenerator<Item, void, undefined> {
	let next: { cursor?: string; after?: string } = {};
	for (;;) {
		const page = await fetch(next);
		yield* page.data;
		if (page.meta?.next_cursor) next = { cursor: page.meta.next_cursor };
		else if (page.has_more && page.next_after && page.next_after !== next.after) next = { after: page.next_after };
		else return;
	}
}
