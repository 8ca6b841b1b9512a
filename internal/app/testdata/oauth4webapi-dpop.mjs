// A client that binds its tokens to a key, as the documentation of oauth4webapi has it. Arguments: where the modules are,
// the issuer, client id, secret, callback, address of the API.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [modules, issuer, id, secret, callback, api] = process.argv.slice(2);
const oauth = await import(pathToFileURL(createRequire(modules + "/").resolve("oauth4webapi")));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => (await lines.next()).value;
const plain = { [oauth.allowInsecureRequests]: true };

const url = new URL(issuer);
const server = await oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, { algorithm: "oauth2", ...plain }));
const client = { client_id: id };
const authentication = oauth.ClientSecretBasic(secret);
const proofs = oauth.DPoP(client, await oauth.generateKeyPair("ES256"));
const verifier = oauth.generateRandomCodeVerifier();
const state = oauth.generateRandomState();
const address = new URL(server.authorization_endpoint);
address.search = new URLSearchParams({
	client_id: id, redirect_uri: callback, response_type: "code", scope: "c_company_worker_list", state,
	dpop_jkt: await proofs.calculateThumbprint(),
	code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
});
console.log(address.href);
const answer = oauth.validateAuthResponse(server, client, new URL(await read()), state);
const response = await oauth.authorizationCodeGrantRequest(server, client, authentication, answer, callback, verifier, { DPoP: proofs, ...plain });
const first = await oauth.processAuthorizationCodeResponse(server, client, response);
const refreshed = await oauth.refreshTokenGrantRequest(server, client, authentication, first.refresh_token, { DPoP: proofs, ...plain });
const tokens = await oauth.processRefreshTokenResponse(server, client, refreshed);
const call = async (DPoP) => {
	try {
		return (await oauth.protectedResourceRequest(tokens.access_token, "GET", new URL(api + "/api/company/workers?per_page=1"), undefined, undefined, { DPoP, ...plain })).status;
	} catch (error) {
		return error.status ?? error.response?.status;
	}
};
// An agent's message has a proof as well.
const message = await oauth.protectedResourceRequest(tokens.access_token, "POST", new URL(api + "/mcp"),
	new Headers({ "Content-Type": "application/json", Accept: "application/json, text/event-stream" }),
	JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "list_workers", arguments: {} } }),
	{ DPoP: proofs, ...plain });
const workers = (await message.json()).result.structuredContent.data;
console.log(tokens.token_type.toLowerCase(), await call(proofs), await call(undefined), await call(oauth.DPoP(client, await oauth.generateKeyPair("ES256"))), message.status, workers.length > 0);
process.exit(0);
