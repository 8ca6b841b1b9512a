// A client as the documentation of oauth4webapi has it. Arguments: where the modules are, the issuer, client id, secret, callback.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [modules, issuer, id, secret, callback] = process.argv.slice(2);
const oauth = await import(pathToFileURL(createRequire(modules + "/").resolve("oauth4webapi")));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => (await lines.next()).value;
const plain = { [oauth.allowInsecureRequests]: true };

const url = new URL(issuer);
const server = await oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, { algorithm: "oauth2", ...plain }));
const client = { client_id: id };
const authentication = oauth.ClientSecretBasic(secret);
const verifier = oauth.generateRandomCodeVerifier();
const state = oauth.generateRandomState();
const pushed = await oauth.processPushedAuthorizationResponse(server, client, await oauth.pushedAuthorizationRequest(server, client, authentication, {
	redirect_uri: callback, response_type: "code", scope: "c_company_worker_list", state,
	code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
}, plain));
const address = new URL(server.authorization_endpoint);
address.search = new URLSearchParams({ client_id: id, request_uri: pushed.request_uri });
console.log(address.href);
const answer = oauth.validateAuthResponse(server, client, new URL(await read()), state);
const response = await oauth.authorizationCodeGrantRequest(server, client, authentication, answer, callback, verifier, plain);
const first = await oauth.processAuthorizationCodeResponse(server, client, response);
const refreshed = await oauth.refreshTokenGrantRequest(server, client, authentication, first.refresh_token, plain);
const tokens = await oauth.processRefreshTokenResponse(server, client, refreshed);
console.log(tokens.access_token);
console.log(tokens.company_id);
await read();
await oauth.processRevocationResponse(await oauth.revocationRequest(server, client, authentication, tokens.access_token, plain));
console.log("revoked");
process.exit(0);
