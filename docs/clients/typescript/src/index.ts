export { Shruti, type TranscribeOptions, type UploadOptions, type WaitOptions } from "./client.ts";
export * from "./errors.ts";
export type { ClientOptions, RequestOptions } from "./transport.ts";
export * from "./types.ts";
export type { FileSource, SendOptions } from "./upload.ts";
export { type Delivery, verifyWebhook } from "./webhooks.ts";
