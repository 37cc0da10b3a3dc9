import { AppError } from "../../domain/errors.ts";
import { RECORDING_ERRORS, type SynchronousOrder } from "../../services/transcriptions/synchronous.ts";
import type { HttpDeps } from "../deps.ts";
import type { FormReceiver } from "../form-receiver.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { idempotencyKeyOf } from "../wire/idempotency.ts";
import type { ReceivedForm } from "../wire/multipart.ts";
import { MAX_JSON_BYTES } from "../wire/parse.ts";
import { fieldOfPart, metadataOfForm, requestOfForm, withheldFields } from "../wire/requests.ts";
import { RESULT_ALTERNATIVES, resultResponse, wantedResult } from "../wire/results.ts";
import { AudioForm, TranscriptionResult } from "../wire/schemas.ts";
import { refuseUnknown, validate } from "../wire/validate.ts";
import { namingOpenAiAddress } from "./openai-address.ts";

const TRANSCRIBE = operation({
  id: "transcribeAudio",
  summary: "Synchronous transcription of short audio",
  description:
    "Answers with the result. After 503 and 504 try again under another idempotency key, or upload the recording.",
  tag: "Transcriptions",
  scope: "transcriptions:write",
  acceptsIdempotencyKey: true,
  multipart: AudioForm,
  errors: [...RECORDING_ERRORS, "capacity_unavailable"],
  responses: { 200: "The finished result." },
  alternatives: RESULT_ALTERNATIVES,
});

/** Synchronous transcription (docs/interface.md section 4.7); needs the scope `transcriptions:write`. */
export function audioRoutes(deps: HttpDeps, receive: FormReceiver) {
  return defineKeyedRoutes("audio").post(
    "/v1/audio/transcriptions",
    async ({ caller, request }) => {
      const key = idempotencyKeyOf(request);
      const { form, bounds } = limitsNow(deps);
      return receive(request, caller, form, async (received, path, attendance) => {
        const row = await namingOpenAiAddress(deps.config, received.names, async () =>
          deps.synchronous.transcribe(caller, { ...orderOf(deps, received, path), bounds, key }, attendance),
        );
        return resultResponse(deps.transcriptions.result(caller, row.id), wantedResult(request));
      });
    },
    { response: { 200: TranscriptionResult }, ...TRANSCRIBE },
  );
}

/** Returns the limits of a request that begins now: a reload of the config changes them. */
function limitsNow({ config: { limits, capabilities } }: HttpDeps) {
  return {
    form: {
      maxFileBytes: limits.synchronous_max_bytes,
      // As in a request with a JSON body.
      ...(capabilities.metadata ? { maxFieldBytes: MAX_JSON_BYTES } : {}),
      timeoutSeconds: limits.synchronous_timeout_seconds,
    },
    bounds: {
      maxBytes: limits.synchronous_max_bytes,
      maxDurationSeconds: limits.synchronous_max_duration_seconds,
      waitSeconds: limits.synchronous_wait_seconds,
    },
  };
}

/**
 * Reads an order out of a received form (docs/decisions/order-of-checks.md).
 *
 * @throws AppError `unknown_parameter`, `audio_too_large` for a part that was cut off, `invalid_request`, in this order
 */
function orderOf(
  { config }: HttpDeps,
  form: ReceivedForm,
  path: string,
): Omit<SynchronousOrder, "bounds" | "key"> {
  const withheld = withheldFields(config);
  const fieldOf = (name: string) => (withheld.includes(fieldOfPart(name)) ? name : fieldOfPart(name));
  const names = Object.fromEntries(form.names.map((name) => [fieldOf(name), undefined]));
  refuseUnknown(AudioForm, names, withheld);
  if (form.isCutOff) throw new AppError("audio_too_large", { detail: "file" });
  if (form.fault) {
    throw new AppError("invalid_request", { detail: form.fault.name, message: form.fault.message });
  }
  const isMember = ([name]: [string, string]) => fieldOfPart(name) !== name;
  const texts = [...form.fields].filter((each) => !isMember(each));
  const fields = validate(AudioForm, { ...Object.fromEntries(texts), ...(form.file ? { file: "" } : {}) });
  const file = form.file ?? { bytes: 0, sha256: "" };
  return {
    modelId: fields.model,
    request: requestOfForm(fields, metadataOfForm(form.fields)),
    file: { ...file, path },
    isTooLarge: form.isTooLarge,
  };
}
