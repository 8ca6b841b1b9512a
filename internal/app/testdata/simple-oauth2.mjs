// A client as the documentation of simple-oauth2 has it. Arguments: where the modules are, the issuer, client id, secret, callback.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [modules, issuer, id, secret, callback] = process.argv.slice(2);
const { AuthorizationCode } = createRequire(modules + "/")("simple-oauth2");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => (await lines.next()).value;

const server = await (await fetch(issuer + "/.well-known/oauth-authorization-server")).json();
const token = new URL(server.token_endpoint);
const authorize = new URL(server.authorization_endpoint);
const client = new AuthorizationCode({
	client: { id, secret },
	auth: {
		tokenHost: token.origin, tokenPath: token.pathname, revokePath: new URL(server.revocation_endpoint).pathname,
		authorizeHost: authorize.origin, authorizePath: authorize.pathname,
	},
});
console.log(client.authorizeURL({ redirect_uri: callback, scope: "c_company_worker_list", state: "state" }));
const answer = new URL(await read()).searchParams;
const first = await client.getToken({ code: answer.get("code"), redirect_uri: callback });
const tokens = await first.refresh();
console.log(tokens.token.access_token);
console.log(tokens.token.company_id);
await read();
await tokens.revoke("access_token");
console.log("revoked");
process.exit(0);
