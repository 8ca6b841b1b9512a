// Tests the SDK against the sandbox at STIPEND_URL and a server of its own.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import test, { after } from "node:test";
import { Stipend, StipendError, parseEvent, verifyWebhook, type Event, type PayrollCreateParams } from "@stipend/sdk";

const baseURL = process.env.STIPEND_URL!;
const apiKey = process.env.STIPEND_KEY!;
const client = new Stipend({ baseURL, apiKey });

interface Received {
	request: IncomingMessage;
	body: string;
}

// serve answers each request by the next answer, the last one repeatedly, and returns the requests.
async function serve(...answers: ((response: ServerResponse) => void)[]) {
	const received: Received[] = [];
	const server = createServer(async (request, response) => {
		let body = "";
		for await (const part of request) body += part;
		received.push({ request, body });
		(answers.length > 1 ? answers.shift() : answers[0])!(response);
		server.emit("received");
	});
	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	after(() => server.close());
	return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received, server };
}

const json = (status: number, body: string, headers = {}) => (response: ServerResponse) => {
	response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(body);
};

test("pays a payroll and receives its event", async () => {
	const shop = await serve((response) => response.writeHead(204).end());
	const hook = await client.webhooks.create({ url: shop.url, events: ["payroll.created"] });
	const workers = [];
	for await (const worker of client.workers.all({ per_page: 1 })) workers.push(worker.user_id);
	assert.ok(workers.length > 1);
	const params: PayrollCreateParams = { currency: "USD", to_pay: [{ user_id: workers[0]!, amount_fiat: "0100.10" }] };
	const payroll = await client.payrolls.create(params, { idempotencyKey: "typescript" });
	const again = await client.payrolls.create(params, { idempotencyKey: "typescript" });
	assert.deepEqual(again, payroll);
	assert.match(payroll.volume_input_in_input_currency, /^100\.10?$/);
	assert.match(payroll.quote!.funding_amount, /^0\.\d+$/);

	if (!shop.received.length) await once(shop.server, "received");
	const { request, body } = shop.received[0]!;
	const event = await verifyWebhook(body, request.headers, "whsec_b3RoZXI=", hook.secret);
	assert.equal(event.event, "payroll.created");
	if (event.event !== "payroll.created") return; // narrows the type of data
	assert.equal(event.data.payroll_id, payroll.payroll_id);
	assert.match(event.data.volume_input_in_input_currency, /^100\.10?$/);
	await assert.rejects(verifyWebhook(body + " ", request.headers, hook.secret), /invalid webhook signature/);
	await assert.rejects(verifyWebhook(body, request.headers, "whsec_?"), TypeError);

	const listed: Event[] = [];
	for await (const e of client.events.all({ object_id: payroll.payroll_id, limit: 1 })) listed.push(e);
	assert.deepEqual(listed.find((e) => e.id === event.id), parseEvent(body));
	await client.webhooks.delete(hook.webhook_id);
});

test("names every problem of a request", async () => {
	const wrong = client.payrolls.create({ to_pay: [{ user_id: "usr_1", amount_fiat: "1" }], currency: "XXX" });
	await assert.rejects(wrong, (error) => {
		assert.ok(error instanceof StipendError);
		assert.equal(error.code, "currency_not_supported");
		assert.match(error.requestId, /^req_/);
		assert.equal(error.errors[0]!.pointer, "/currency");
		assert.ok(error.message.includes(error.requestId));
		return true;
	});
	const number = { to_pay: [{ user_id: "usr_1", amount_fiat: 12.5 }] } as unknown as PayrollCreateParams;
	await assert.rejects(client.payrolls.create(number), /12.5 is not a decimal/);
});

test("retries with the same key, and keeps every digit", async () => {
	const exact = "12345678901234567.123456789012345678";
	const busy = await serve(
		(response) => response.destroy(),
		json(503, "{}", { "Retry-After": "0" }),
		json(409, `{"code":"idempotency_in_progress"}`, { "Retry-After": "0" }),
		json(200, `{"payroll_id":"prl_\\"1","fees":${exact},"quote":{"rate":-0.10}}`),
	);
	const payroll = await new Stipend({ baseURL: busy.url, accessToken: async () => "token" }).payrolls.create({
		to_pay: [{ user_id: "usr_1", amount_fiat: exact, description: "1.50" }],
	});
	assert.equal(payroll.fees, exact);
	assert.equal(payroll.quote!.rate, "-0.10");
	assert.equal(busy.received.length, 4);
	assert.equal(new Set(busy.received.map((r) => r.request.headers["idempotency-key"])).size, 1);
	assert.equal(busy.received[3]!.request.headers.authorization, "Bearer token");
	assert.ok(busy.received[3]!.body.includes(`"amount_fiat":${exact},"description":"1.50"`));

	const proxy = await serve(json(502, "<html>"));
	const failed = new Stipend({ baseURL: proxy.url, apiKey }).workers.list();
	await assert.rejects(failed, (error) => error instanceof StipendError && error.code === "unexpected_response");
	const full = await serve(json(429, "{}", { "Retry-After": "0" }));
	await assert.rejects(new Stipend({ baseURL: full.url, apiKey, maxAttempts: 2 }).workers.list());
	assert.equal(full.received.length, 2);
});
