import type { Command } from "commander";
import { type CliContext, CommandError } from "../frame/context.ts";

/** The variables are no settings, so they have another prefix. */
const URL_VARIABLE = "MCP_SHRUTI_URL";
const KEY_VARIABLE = "MCP_SHRUTI_KEY";
const MAX_KEY_BYTES = 1024;

type Options = { url?: string; keyFile?: string; root: string[] };

/** `shruti mcp`: a door for an assistant on this machine to a running server (docs/clients/mcp.md). */
export function registerMcp(program: Command, context: CliContext): void {
  program
    .command("mcp")
    .description(
      `Let an assistant transcribe, list, read and search by the Model Context Protocol on standard input and output. It asks a running server, with the key of ${KEY_VARIABLE} or --key-file.`,
    )
    .option("--url <url>", `address of the server; left out: ${URL_VARIABLE}`)
    .option("--key-file <file>", `file with a project's key; left out: ${KEY_VARIABLE}`)
    .option(
      "--root <folder>",
      "folder whose recordings the assistant may send; may be given again; left out: the folders that the assistant's program names",
      (folder: string, before: string[]) => [...before, folder],
      [],
    )
    .action((options: Options) => runMcp(context, options));
}

async function runMcp({ io }: CliContext, options: Options): Promise<void> {
  const url = serverUrl(options.url ?? io.environment[URL_VARIABLE] ?? "");
  const [{ serveOnStdio }, { readRegularFile }] = await Promise.all([
    import("../../http/mcp/on-stdio.ts"),
    import("../../lib/regular-file.ts"),
  ]);
  const given =
    options.keyFile === undefined
      ? io.environment[KEY_VARIABLE]
      : readRegularFile(options.keyFile, MAX_KEY_BYTES);
  const key = (given ?? "").trim();
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new CommandError("usage", `there is no key: set ${KEY_VARIABLE}, or give --key-file`);
  await serveOnStdio({ url, key, roots: options.root, warn: (line) => void io.err(`${line}\n`) });
}

/** @throws CommandError `usage`; it does not repeat the address, which may have a secret in it */
function serverUrl(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.search !== "" || url.hash !== "")
    throw new CommandError(
      "usage",
      `the server's address is none of the form https://speech.example: give --url, or set ${URL_VARIABLE}`,
    );
  return url.href.replace(/\/+$/, "");
}
