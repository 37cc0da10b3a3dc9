import { contextOf } from "../context.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { Upload, UploadCreate, UploadCreated } from "../wire/schemas.ts";
import { toCreatedResponse, toUploadResponse } from "../wire/uploads.ts";

/** `complete` may verify for a while before it answers; the connection is silent meanwhile. */
const COMPLETE_SILENCE_SECONDS = 120;

type UploadRouteDeps = Pick<HttpDeps, "uploads" | "config" | "baseUrl">;

/** Uploads (docs/interface.md sections 4.8 to 4.10); callers need the scope `uploads:write`. */
export function uploadRoutes(deps: UploadRouteDeps) {
  return defineKeyedRoutes("uploads")
    .post(
      "/v1/uploads",
      async ({ caller, body, set }) => {
        const created = await deps.uploads.create(caller, {
          bytes: body.bytes,
          ...(body.sha256 === undefined ? {} : { sha256: body.sha256 }),
        });
        set.status = 201;
        return toCreatedResponse(created, deps.baseUrl(), deps.config.limits.upload_expiry_seconds);
      },
      {
        response: { 201: UploadCreated },
        ...operation({
          id: "createUpload",
          summary: "Create an upload",
          description: "Announces a file; the answer says where and how to send it.",
          tag: "Uploads",
          scope: "uploads:write",
          body: UploadCreate,
          errors: ["audio_too_large", "capacity_unavailable", "insufficient_credits"],
          responses: { 201: "The upload, and the addresses that take the file." },
        }),
      },
    )
    .post(
      "/v1/uploads/:upload_id/complete",
      async ({ caller, request, params, set }) => {
        contextOf(request).server?.timeout(request, COMPLETE_SILENCE_SECONDS);
        const { upload, isFinished } = await deps.uploads.complete(caller, params.upload_id);
        set.status = isFinished ? 200 : 202;
        return toUploadResponse(upload);
      },
      {
        response: { 200: Upload, 202: Upload },
        ...operation({
          id: "completeUpload",
          summary: "Mark an upload complete",
          description:
            "Says that all bytes have been sent. They are verified: size, SHA-256 where given, decoding. A small file (up to 32 MiB, unless the server is configured otherwise) is verified within the request, for 25 seconds at most: a small file can hold a long recording.",
          tag: "Uploads",
          scope: "uploads:write",
          errors: ["not_found", "forbidden", "upload_incomplete", "upload_rejected", "audio_decode_failed"],
          responses: {
            200: "Verified.",
            202: "A large file, or one that takes longer: verification continues in the background; poll the upload.",
          },
        }),
      },
    )
    .get(
      "/v1/uploads/:upload_id",
      ({ caller, params }) => toUploadResponse(deps.uploads.get(caller, params.upload_id)),
      {
        response: { 200: Upload },
        ...operation({
          id: "getUpload",
          summary: "Get an upload",
          tag: "Uploads",
          scope: "uploads:write",
          errors: ["not_found", "forbidden"],
          responses: { 200: "The upload as it is now." },
        }),
      },
    );
}
