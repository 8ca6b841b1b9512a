// This program must not compile: a member is misspelled, and an amount is a number.
import { Stipend } from "@stipend/sdk";

const client = new Stipend({ baseURL: "http://127.0.0.1:8080", apiKey: "key" });
await client.payrolls.create({ to_pay: [{ user_id: "usr_1", amount_fait: "1.00" }] });
await client.payrolls.create({ to_pay: [{ user_id: "usr_1", amount_fiat: 1.5 }] });
