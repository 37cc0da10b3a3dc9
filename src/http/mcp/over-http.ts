import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { Type } from "@sinclair/typebox";
import { default as project } from "../../../package.json";
import { AppError } from "../../domain/errors.ts";
import { createApi, type Send } from "./api.ts";
import { createMcpServer } from "./mcp-server.ts";
import { type RecordingSource, toolsFor } from "./tools.ts";

/** The largest recording inside a call; a larger one is uploaded. */
export const MAX_AUDIO_BYTES = 2 * 1024 * 1024;
const MAX_BASE64 = Math.ceil(MAX_AUDIO_BYTES / 3) * 4;
/** The largest message, with the other arguments of a call. */
export const MAX_MESSAGE_BYTES = MAX_BASE64 + 64 * 1024;

const INSIDE: RecordingSource = {
  name: "audio_base64",
  schema: Type.String({
    minLength: 1,
    maxLength: MAX_BASE64,
    description: `The file, base64; at most ${MAX_AUDIO_BYTES} bytes.`,
  }),
  description: "the file in `audio_base64`",
  async open(text) {
    if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) {
      throw new AppError("invalid_request", {
        detail: "audio_base64",
        message: "audio_base64 is not base64.",
      });
    }
    return new Blob([Buffer.from(text, "base64")]);
  },
};

/**
 * Answers one message of an assistant. There are no sessions: each message has its sender's key.
 *
 * @param message parsed JSON
 */
export async function answerMessage(
  request: Request,
  message: unknown,
  options: { send: Send; signal: AbortSignal; onFault: (error: unknown) => void },
): Promise<Response> {
  const server = createMcpServer({
    version: project.version,
    tools: toolsFor(INSIDE),
    api: createApi(options.send),
    signal: options.signal,
    onFault: options.onFault,
  });
  const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
  await server.connect(transport);
  try {
    return await transport.handleRequest(request, { parsedBody: message });
  } finally {
    await server.close();
  }
}
