import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
} from "@modelcontextprotocol/sdk/types.js";
import { AppError } from "../../domain/errors.ts";
import { validate } from "../wire/validate.ts";
import type { Api } from "./api.ts";
import type { Tool } from "./tools.ts";

/** What a server for assistants is made of. */
export type McpOptions = {
  version: string;
  tools: readonly Tool[];
  api: Api;
  /** Aborts when no answer is awaited any more. */
  signal: AbortSignal;
  /** Called with a failure that is the program's own; the assistant only learns that there was one. */
  onFault: (error: unknown) => void;
};

const INSTRUCTIONS =
  "Shruti transcribes speech, mainly in Indian languages. Transcriptions cost the organization money; reading and searching do not.";

/**
 * Makes a server of the Model Context Protocol, without its transport. A refusal of the API is a result with `isError`,
 * which the assistant reads.
 */
export function createMcpServer({ version, tools, api, signal, onFault }: McpOptions): Server {
  const server = new Server(
    { name: "shruti", title: "Shruti", version },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ name, title, description, input, isReading }) => ({
      ...{ name, title, description },
      inputSchema: JSON.parse(JSON.stringify(input)),
      annotations: { title, readOnlyHint: isReading, destructiveHint: false, openWorldHint: false },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra): Promise<CallToolResult> => {
    const tool = tools.find(({ name }) => name === params.name);
    if (!tool)
      throw new McpError(
        ErrorCode.InvalidParams,
        `There is no tool ${JSON.stringify(params.name.slice(0, 100))}.`,
      );
    const progressToken = params._meta?.progressToken;
    const onProgress = async (progress: number) => {
      if (progressToken === undefined) return;
      await extra.sendNotification({
        method: "notifications/progress",
        params: { progressToken, progress, total: 1 },
      });
    };
    try {
      const args = validate(tool.input, params.arguments ?? {});
      const call = { api, signal: AbortSignal.any([signal, extra.signal]), onProgress };
      const found = await tool.run(args as never, call);
      return textResult(typeof found === "string" ? found : JSON.stringify(found));
    } catch (error) {
      return { ...textResult(wordsOf(error, onFault)), isError: true };
    }
  });
  return server;
}

const textResult = (text: string): CallToolResult => ({ content: [{ type: "text", text }] });

/** What an assistant reads of a refusal: its code, its sentence, its field, and when to try again. */
function wordsOf(error: unknown, onFault: (error: unknown) => void): string {
  if (!(error instanceof AppError)) {
    onFault(error);
    return "internal_error: The tool failed.";
  }
  const { code, message, detail, retryAfterSeconds } = error;
  const where = detail === undefined ? "" : ` (${detail})`;
  const when = retryAfterSeconds === undefined ? "" : ` Try again after ${Math.ceil(retryAfterSeconds)} s.`;
  return `${code}${where}: ${message}${when}`;
}
