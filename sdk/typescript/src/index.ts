// The TypeScript client of the Stipend API. README.md has examples.
export * from "./services_gen.js";
export * from "./types_gen.js";
export { errorCodes, type EventTypes } from "./names_gen.js";
export type { Decimal } from "./decimal.js";
export { StipendError, type ErrorCode, type FieldError } from "./error.js";
export type { ClientOptions, RequestOptions } from "./transport.js";
export { parseEvent, verifyWebhook, type Event } from "./webhook.js";
