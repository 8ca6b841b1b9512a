// A client as the documentation of openid-client has it. Arguments: where the modules are, the issuer, client id, secret, callback.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [modules, issuer, id, secret, callback] = process.argv.slice(2);
const oauth = await import(pathToFileURL(createRequire(modules + "/").resolve("openid-client")));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => (await lines.next()).value;

const config = await oauth.discovery(new URL(issuer), id, secret, undefined, { algorithm: "oauth2", execute: [oauth.allowInsecureRequests] });
const verifier = oauth.randomPKCECodeVerifier();
const state = oauth.randomState();
console.log((await oauth.buildAuthorizationUrlWithPAR(config, {
	redirect_uri: callback, scope: "c_company_worker_list", state,
	code_challenge: await oauth.calculatePKCECodeChallenge(verifier), code_challenge_method: "S256",
})).href);
const first = await oauth.authorizationCodeGrant(config, new URL(await read()), { pkceCodeVerifier: verifier, expectedState: state });
const tokens = await oauth.refreshTokenGrant(config, first.refresh_token);
console.log(tokens.access_token);
console.log(tokens.company_id);
await read();
await oauth.tokenRevocation(config, tokens.access_token);
console.log("revoked");
const device = await oauth.initiateDeviceAuthorization(config, { scope: "c_company_worker_list" });
console.log(device.verification_uri_complete);
const own = await oauth.pollDeviceAuthorizationGrant(config, device);
console.log(own.access_token);
process.exit(0);
