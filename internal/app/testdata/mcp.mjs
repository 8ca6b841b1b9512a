// The official client of the Model Context Protocol. Arguments: where the modules are, and how to connect:
//
//   oauth URL CLIENT_ID CLIENT_SECRET CALLBACK   prints the address to open, and reads the one that the browser was sent to
//   header URL AUTHORIZATION                     with a fixed credential
//   stdio PROGRAM ARGUMENTS…                     starts a program, which inherits the environment
//
// It prints "connected" or the error, then reads calls such as {"do": "callTool", "with": {…}}, one per line, and prints
// each result or error as JSON.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [modules, how, ...args] = process.argv.slice(2);
const sdk = (path) => import(pathToFileURL(createRequire(modules + "/").resolve("@modelcontextprotocol/sdk/" + path)));
const { Client } = await sdk("client/index.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { UnauthorizedError } = await sdk("client/auth.js");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => (await lines.next()).value;

async function connect() {
	const client = new Client({ name: "test", version: "1.0.0" });
	if (how === "stdio") {
		await client.connect(new StdioClientTransport({ command: args[0], args: args.slice(1), env: process.env, stderr: "inherit" }));
		return client;
	}
	const url = new URL(args[0]);
	if (how === "header") {
		await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: { Authorization: args[1] } } }));
		return client;
	}
	const kept = {};
	const transport = () => new StreamableHTTPClientTransport(url, { authProvider: {
		redirectUrl: args[3],
		clientMetadata: { redirect_uris: [args[3]], client_name: "test", scope: args[4] },
		clientInformation: () => ({ client_id: args[1], client_secret: args[2] }),
		state: () => "some state",
		tokens: () => kept.tokens,
		saveTokens: (tokens) => { kept.tokens = tokens; },
		redirectToAuthorization: (address) => console.log(address.href),
		saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
		codeVerifier: () => kept.verifier,
	} });
	const first = transport();
	try {
		await client.connect(first);
	} catch (error) {
		if (!(error instanceof UnauthorizedError)) throw error;
		await first.finishAuth(new URL(await read()).searchParams.get("code"));
		await client.connect(transport());
	}
	return client;
}

let client;
try {
	client = await connect();
	console.log("connected");
} catch (error) {
	console.log(String(error));
	process.exit(0);
}
for (let line = await read(); line; line = await read()) {
	const call = JSON.parse(line);
	try {
		console.log(JSON.stringify(await client[call.do](call.with)));
	} catch (error) {
		console.log(JSON.stringify({ code: error.code, error: error.message }));
	}
}
await client.close();
process.exit(0);
