// Verifies a delivery of a webhook. Needs Node 18 or later and no package; with one: npm install standardwebhooks.
import { createHmac, timingSafeEqual } from "node:crypto";

const TOLERANCE = 5 * 60; // seconds

// rawBody is the body as it came, before any JSON parser; headers have lower-case names.
export function verify(secret, headers, rawBody, now = Date.now() / 1000) {
  const id = headers["webhook-id"] ?? "";
  const timestamp = headers["webhook-timestamp"] ?? "";
  if (!id || !/^\d+$/.test(timestamp) || Math.abs(now - Number(timestamp)) > TOLERANCE) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(rawBody).digest();
  return (headers["webhook-signature"] ?? "").split(" ").some((part) => {
    const [version, signature] = part.split(",");
    const given = Buffer.from(signature ?? "", "base64");
    return version === "v1" && given.length === expected.length && timingSafeEqual(given, expected);
  });
}

// On the command line: node verify.mjs SECRET ID TIMESTAMP SIGNATURE < body
if (import.meta.url === `file://${process.argv[1]}`) {
  const [secret, id, timestamp, signature] = process.argv.slice(2);
  const chunks = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
  process.exit(verify(secret, headers, Buffer.concat(chunks)) ? 0 : 1);
}
