// Generated from the OpenAPI document by scripts/clients/generate.ts. Do not edit it.

import { pages } from "./pages.ts";
import { type ApiRequest, type RequestOptions, segment } from "./transport.ts";
import type {
  AudioForm,
  AudioLink,
  GetTranscriptionAudioQuery,
  GetTranscriptionResultQuery,
  GetUsageQuery,
  ListTranscriptionsQuery,
  ListWebhookEndpointsQuery,
  ModelList,
  RotatedSecret,
  SecretRotate,
  Transcription,
  TranscriptionCreate,
  TranscriptionList,
  TranscriptionResult,
  Upload,
  UploadCreate,
  UploadCreated,
  Usage,
  UsageEvent,
  Waveform,
  WebhookEndpoint,
  WebhookEndpointCreate,
  WebhookEndpointList,
  WebhookEndpointRemoved,
  WebhookEndpointView,
} from "./types.ts";

/** One method for each operation of the interface. `Shruti` adds how requests are sent. */
export abstract class Operations {
  /** Sends a request and reads its answer. */
  protected abstract call<T>(request: ApiRequest, options: RequestOptions | undefined): Promise<T>;

  /**
   * Start a transcription.
   *
   * Reserves credit and queues the work. A repeated request with its key gets the first transcription.
   *
   * Scope: `transcriptions:write`.
   */
  createTranscription(body: TranscriptionCreate, options?: RequestOptions): Promise<Transcription> {
    return this.call({ method: "POST", path: "/v1/transcriptions", json: body, takesKey: true }, options);
  }

  /**
   * List transcriptions.
   *
   * With `metadata` a page may have fewer than `limit`, also none, while `next` leads to more.
   *
   * Scope: `transcriptions:read`.
   */
  listTranscriptions(query: ListTranscriptionsQuery = {}, options?: RequestOptions): Promise<TranscriptionList> {
    return this.call({ method: "GET", path: "/v1/transcriptions", query }, options);
  }

  /** Like `listTranscriptions`, one element after the other, with the pages behind the first one. */
  iterateTranscriptions(query: ListTranscriptionsQuery = {}, options?: RequestOptions): AsyncGenerator<Transcription, void, undefined> {
    return pages((page) => this.listTranscriptions({ ...query, ...page }, options));
  }

  /**
   * Get a transcription.
   *
   * Scope: `transcriptions:read`.
   */
  getTranscription(transcriptionId: string, options?: RequestOptions): Promise<Transcription> {
    return this.call({ method: "GET", path: `/v1/transcriptions/${segment(transcriptionId)}` }, options);
  }

  /**
   * Delete audio and transcript.
   *
   * The record and its usage event stay. Unfinished work must be cancelled first.
   *
   * Scope: `transcriptions:write`.
   */
  deleteTranscription(transcriptionId: string, options?: RequestOptions): Promise<Transcription> {
    return this.call({ method: "DELETE", path: `/v1/transcriptions/${segment(transcriptionId)}` }, options);
  }

  /**
   * Get the result.
   *
   * JSON, or by `format` or `Accept` the transcript alone as WebVTT, SubRip or plain text, or by `format` its words as CTM.
   *
   * Scope: `transcriptions:read`.
   */
  getTranscriptionResult(transcriptionId: string, query: GetTranscriptionResultQuery = {}, options?: RequestOptions): Promise<TranscriptionResult> {
    return this.call({ method: "GET", path: `/v1/transcriptions/${segment(transcriptionId)}/result`, query }, options);
  }

  /** Get the result. The answer is text in the form that is asked for. */
  getTranscriptionResultText(transcriptionId: string, format: Exclude<NonNullable<GetTranscriptionResultQuery["format"]>, "json">, query: Omit<GetTranscriptionResultQuery, "format"> = {}, options?: RequestOptions): Promise<string> {
    return this.call({ method: "GET", path: `/v1/transcriptions/${segment(transcriptionId)}/result`, query: { ...query, format }, answer: "text" }, options);
  }

  /**
   * Cancel a transcription.
   *
   * Cancelled work is not charged, but for words that a stream of the OpenAI layer has sent. A finished transcription is returned unchanged.
   *
   * Scope: `transcriptions:write`.
   */
  cancelTranscription(transcriptionId: string, options?: RequestOptions): Promise<Transcription> {
    return this.call({ method: "POST", path: `/v1/transcriptions/${segment(transcriptionId)}/cancel` }, options);
  }

  /**
   * Listen to the recording.
   *
   * The recording as WAV: 16 kHz and 16 bit, one channel, or with channel mode `separate` all of them. `Range` with one range is answered by at most 1 MiB. Players that cannot send a key use the address of an audio link.
   *
   * Scope: `transcriptions:read`.
   */
  getTranscriptionAudio(transcriptionId: string, query: GetTranscriptionAudioQuery = {}, options?: RequestOptions): Promise<Response> {
    return this.call({ method: "GET", path: `/v1/transcriptions/${segment(transcriptionId)}/audio`, query, answer: "stream" }, options);
  }

  /**
   * Make an address for a player.
   *
   * The address opens the audio without the key for four hours, unless the key ends before.
   *
   * Scope: `transcriptions:read`.
   */
  createAudioLink(transcriptionId: string, options?: RequestOptions): Promise<AudioLink> {
    return this.call({ method: "POST", path: `/v1/transcriptions/${segment(transcriptionId)}/audio_links` }, options);
  }

  /**
   * Get the shape of the sound.
   *
   * Peaks for a picture of the recording, and where speech was found.
   *
   * Scope: `transcriptions:read`.
   */
  getTranscriptionWaveform(transcriptionId: string, options?: RequestOptions): Promise<Waveform> {
    return this.call({ method: "GET", path: `/v1/transcriptions/${segment(transcriptionId)}/waveform` }, options);
  }

  /**
   * Synchronous transcription of short audio.
   *
   * Answers with the result. After 503 and 504 try again under another idempotency key, or upload the recording.
   *
   * Scope: `transcriptions:write`.
   */
  transcribeAudio(body: AudioForm, options?: RequestOptions): Promise<TranscriptionResult> {
    return this.call({ method: "POST", path: "/v1/audio/transcriptions", form: body, takesKey: true }, options);
  }

  /** Synchronous transcription of short audio. The answer is text in the form that is asked for. */
  transcribeAudioText(body: AudioForm, mediaType: "text/vtt" | "application/x-subrip" | "application/srt" | "text/srt" | "text/plain", options?: RequestOptions): Promise<string> {
    return this.call({ method: "POST", path: "/v1/audio/transcriptions", form: body, takesKey: true, mediaType, answer: "text" }, options);
  }

  /**
   * Create an upload.
   *
   * Announces a file; the answer says where and how to send it.
   *
   * Scope: `uploads:write`.
   */
  createUpload(body: UploadCreate, options?: RequestOptions): Promise<UploadCreated> {
    return this.call({ method: "POST", path: "/v1/uploads", json: body }, options);
  }

  /**
   * Mark an upload complete.
   *
   * Says that all bytes have been sent. They are verified: size, SHA-256 where given, decoding. A small file (up to 32 MiB, unless the server is configured otherwise) is verified within the request, for 25 seconds at most: a small file can hold a long recording.
   *
   * Scope: `uploads:write`.
   */
  completeUpload(uploadId: string, options?: RequestOptions): Promise<Upload> {
    return this.call({ method: "POST", path: `/v1/uploads/${segment(uploadId)}/complete` }, options);
  }

  /**
   * Get an upload.
   *
   * Scope: `uploads:write`.
   */
  getUpload(uploadId: string, options?: RequestOptions): Promise<Upload> {
    return this.call({ method: "GET", path: `/v1/uploads/${segment(uploadId)}` }, options);
  }

  /**
   * List models, capabilities and limits.
   *
   * Scope: `models:read`.
   */
  listModels(options?: RequestOptions): Promise<ModelList> {
    return this.call({ method: "GET", path: "/v1/models" }, options);
  }

  /**
   * Usage events and credit.
   *
   * Credit belongs to the organization; events are those of the key's project.
   *
   * Scope: `usage:read`.
   */
  getUsage(query: GetUsageQuery = {}, options?: RequestOptions): Promise<Usage> {
    return this.call({ method: "GET", path: "/v1/usage", query }, options);
  }

  /** Like `getUsage`, one element after the other, with the pages behind the first one. */
  iterateUsage(query: GetUsageQuery = {}, options?: RequestOptions): AsyncGenerator<UsageEvent, void, undefined> {
    return pages((page) => this.getUsage({ ...query, ...page }, options));
  }

  /**
   * Register a webhook endpoint.
   *
   * Events are signed as Standard Webhooks 1.0 says. The signing secret is returned this once only. `events` with `credit.low` also needs the scope `usage:read`.
   *
   * Scope: `webhooks:write`.
   */
  createWebhookEndpoint(body: WebhookEndpointCreate, options?: RequestOptions): Promise<WebhookEndpoint> {
    return this.call({ method: "POST", path: "/v1/webhook_endpoints", json: body }, options);
  }

  /**
   * List webhook endpoints.
   *
   * Scope: `webhooks:write`.
   */
  listWebhookEndpoints(query: ListWebhookEndpointsQuery = {}, options?: RequestOptions): Promise<WebhookEndpointList> {
    return this.call({ method: "GET", path: "/v1/webhook_endpoints", query }, options);
  }

  /** Like `listWebhookEndpoints`, one element after the other, with the pages behind the first one. */
  iterateWebhookEndpoints(query: ListWebhookEndpointsQuery = {}, options?: RequestOptions): AsyncGenerator<WebhookEndpointView, void, undefined> {
    return pages((page) => this.listWebhookEndpoints({ ...query, ...page }, options));
  }

  /**
   * Get a webhook endpoint.
   *
   * Scope: `webhooks:write`.
   */
  getWebhookEndpoint(webhookEndpointId: string, options?: RequestOptions): Promise<WebhookEndpointView> {
    return this.call({ method: "GET", path: `/v1/webhook_endpoints/${segment(webhookEndpointId)}` }, options);
  }

  /**
   * Remove a webhook endpoint.
   *
   * For good: its waiting events fail, and its secrets are deleted.
   *
   * Scope: `webhooks:write`.
   */
  deleteWebhookEndpoint(webhookEndpointId: string, options?: RequestOptions): Promise<WebhookEndpointRemoved> {
    return this.call({ method: "DELETE", path: `/v1/webhook_endpoints/${segment(webhookEndpointId)}` }, options);
  }

  /**
   * Enable a webhook endpoint.
   *
   * An endpoint that answered 410 was disabled. Its waiting events are sent at once.
   *
   * Scope: `webhooks:write`.
   */
  enableWebhookEndpoint(webhookEndpointId: string, options?: RequestOptions): Promise<WebhookEndpointView> {
    return this.call({ method: "POST", path: `/v1/webhook_endpoints/${segment(webhookEndpointId)}/enable` }, options);
  }

  /**
   * Replace a signing secret.
   *
   * Both secrets sign until the previous one expires: `webhook-signature` then has two signatures, separated by a space.
   *
   * Scope: `webhooks:write`.
   */
  rotateWebhookSecret(webhookEndpointId: string, body: SecretRotate = {}, options?: RequestOptions): Promise<RotatedSecret> {
    return this.call({ method: "POST", path: `/v1/webhook_endpoints/${segment(webhookEndpointId)}/rotate_secret`, json: body }, options);
  }
}

