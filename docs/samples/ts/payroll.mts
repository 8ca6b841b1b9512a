// Creates a payroll for two workers and says what to pay for it: node payroll.mjs BASE API_KEY
//
// The client is openapi-fetch, the types are made from the contract:
//
//	npm install openapi-fetch openapi-typescript typescript @types/node
//	npx openapi-typescript BASE/openapi.json -o contract.d.ts
//	npx tsc --strict --module nodenext --target es2022 payroll.mts
import { randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { paths } from "./contract.js";

const [base, key] = process.argv.slice(2);
if (!base || !key) throw new Error("usage: payroll BASE API_KEY");
const stipend = createClient<paths>({ baseUrl: base, headers: { Authorization: `Basic ${key}` } });

const workers = await stipend.GET("/api/company/workers", { params: { query: { per_page: 2 } } });
if (workers.error) throw new Error(`${workers.error.code}: ${workers.error.detail}`);

// The key makes the request safe to repeat: keep it, and send the same again when no answer came.
const made = await stipend.POST("/api/company/payroll/create", {
	params: { header: { "Idempotency-Key": randomUUID() } },
	body: { currency: "USD", to_pay: workers.data.data.map((w) => ({ user_id: w.user_id, amount_fiat: 12.5 })) },
});
if (made.error) throw new Error(`${made.error.code}: ${made.error.detail}`);

const run = await stipend.GET("/api/company/payrolls/{payroll_id}", { params: { path: { payroll_id: made.data.payroll_id } } });
if (run.error) throw new Error(`${run.error.code}: ${run.error.detail}`);
console.log(`${run.data.payroll_id} is ${run.data.status}, for ${run.data.payments.length} workers`);

// Amounts are JSON numbers, and JavaScript reads them as binary floating point: reckon with them in a library of decimals.
const quote = made.data.quote;
if (quote) console.log(`pay ${quote.funding_amount.toFixed(8)} ${quote.funding_currency} to ${quote.funding_details.address}`);
