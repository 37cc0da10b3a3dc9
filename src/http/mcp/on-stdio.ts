import { realpath } from "node:fs/promises";
import { sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { Type } from "@sinclair/typebox";
import { default as project } from "../../../package.json";
import { AppError } from "../../domain/errors.ts";
import { errorMessage } from "../../lib/error-message.ts";
import { RegularFileError, statRegularFile } from "../../lib/regular-file.ts";
import { reasonOf } from "../../lib/system-error.ts";
import { createApi, type Send } from "./api.ts";
import { createMcpServer } from "./mcp-server.ts";
import { type RecordingSource, toolsFor } from "./tools.ts";

/** What a door on standard input and output needs to know. */
export type StdioOptions = {
  /** Address of the server, without a slash at the end. */
  url: string;
  key: string;
  /** Folders whose files may be sent; empty: those that the client names. */
  roots: readonly string[];
  /** Writes a line for the person who runs the assistant. */
  warn: (line: string) => void;
};

const PATH = Type.String({
  minLength: 1,
  maxLength: 4096,
  description: "Absolute path of the recording, in a folder that is allowed.",
});

/** Serves one client until its end of standard input. Standard output has messages of the protocol and nothing else. */
export async function serveOnStdio({ url, key, roots, warn }: StdioOptions): Promise<void> {
  const ended = new AbortController();
  const server: Server = createMcpServer({
    version: project.version,
    tools: toolsFor(filesIn(async () => (roots.length > 0 ? roots : clientRoots(server)))),
    api: createApi(sendTo(url, key)),
    signal: ended.signal,
    onFault: (error) => warn(`a tool failed: ${errorMessage(error)}`),
  });
  server.onerror = (error) => warn(errorMessage(error));
  const end = Promise.withResolvers<void>();
  process.stdin.once("end", end.resolve);
  process.stdin.once("close", end.resolve);
  server.onclose = end.resolve;
  await server.connect(new StdioServerTransport());
  await end.promise;
  ended.abort();
  await server.close();
}

/** Sends requests to the server. The key goes to no other address, also not after a redirection. */
function sendTo(url: string, key: string): Send {
  return async (address, init) => {
    const isPath = address.startsWith("/");
    const headers = new Headers(init.headers);
    if (isPath) headers.set("authorization", `Bearer ${key}`);
    try {
      return await fetch(isPath ? `${url}${address}` : address, { ...init, headers, redirect: "manual" });
    } catch (error) {
      const message = `The server at ${new URL(url).host} cannot be reached: ${errorMessage(error)}`;
      throw new AppError("capacity_unavailable", { message });
    }
  };
}

/** The folders that the client's person has opened; none where the client does not say. */
async function clientRoots(server: Server): Promise<string[]> {
  if (!server.getClientCapabilities()?.roots) return [];
  const { roots } = await server.listRoots();
  return roots.flatMap(({ uri }) => (uri.startsWith("file://") ? [fileURLToPath(uri)] : []));
}

function filesIn(rootsNow: () => Promise<readonly string[]>): RecordingSource {
  return {
    name: "path",
    schema: PATH,
    description: "the file at `path` on this machine",
    async open(path) {
      const refuse = (reason: string) =>
        new AppError("invalid_request", {
          detail: "path",
          message: `path ${JSON.stringify(path)}: ${reason}.`,
        });
      const roots = await rootsNow();
      if (roots.length === 0)
        throw refuse("no folder is allowed. Start `shruti mcp` with --root, or open a folder in the client");
      if (!path.startsWith("/")) throw refuse("it is not absolute");
      try {
        // Links are followed first, so that none leads out of the folders.
        const real = await realpath(path);
        if (!(await isBelow(real, roots)))
          throw refuse(`it is in none of the allowed folders: ${roots.join(", ")}`);
        statRegularFile(real);
        return Bun.file(real);
      } catch (error) {
        if (error instanceof AppError) throw error;
        throw refuse(error instanceof RegularFileError ? error.code : reasonOf(error));
      }
    },
  };
}

async function isBelow(path: string, roots: readonly string[]): Promise<boolean> {
  for (const root of roots) {
    // A folder that is not there has no files.
    const real = await realpath(root).catch(() => undefined);
    if (real !== undefined && path.startsWith(real.endsWith(sep) ? real : `${real}${sep}`)) return true;
  }
  return false;
}
