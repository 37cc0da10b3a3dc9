import { setPriority } from "node:os";
import type { Config } from "../config/schema.ts";
import { onAbort } from "../lib/abort.ts";
import { ownCommand } from "../lib/own-executable.ts";
import type { MakeBackup } from "./scheduled-backups.ts";

/** Less urgent than recognition and requests (nice(2)). */
const PRIORITY = 10;
const MAX_MESSAGE = 2_000;
/**
 * The exit status of `shruti backup` for one that was made and lacks files (docs/decisions/commands.md, "Exit
 * statuses").
 */
const INCOMPLETE = 9;

/**
 * Makes backups in a process of their own, `shruti backup --to …`, so that copying and hashing do not delay requests.
 *
 * @param config is read at each backup
 * @param configPath of the server; undefined: it has none
 */
export function backupProcess(config: Config, configPath: string | undefined): MakeBackup {
  return async (signal) => {
    const { to, keep, with_models, with_secrets } = config.backup;
    const { NOTIFY_SOCKET: _, ...environment } = process.env;
    const options = ["backup", "--to", to, "--keep", String(keep), "--json"];
    const command = [
      ...ownCommand(...options),
      ...(with_models ? ["--with-models"] : []),
      ...(with_secrets ? ["--with-secrets"] : []),
      ...(configPath === undefined ? [] : ["--config", configPath]),
    ];
    const child = Bun.spawn(command, {
      argv0: process.execPath,
      env: environment,
      stdin: "ignore",
      stdout: "ignore",
      stderr: "pipe",
    });
    lowerPriority(child.pid);
    const unwatch = onAbort(signal, () => child.kill("SIGTERM"));
    try {
      const [said, status] = await Promise.all([lastOf(child.stderr), child.exited]);
      if (status !== 0 && status !== INCOMPLETE)
        throw new Error(reasonIn(said) ?? `it ended with status ${status}`);
    } finally {
      unwatch();
    }
  };
}

/** Returns the error in what a command has said. Notes and warnings may come before it. */
function reasonIn(said: string): string | undefined {
  const [, error] = /^error: (.*)/ms.exec(said) ?? [];
  return error ?? (said || undefined);
}

/** Reads a stream to its end, and returns its last characters. */
async function lastOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of stream)
    text = (text + decoder.decode(bytes, { stream: true })).slice(-MAX_MESSAGE);
  return text.trim();
}

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, PRIORITY);
  } catch {
    // It has ended already, or the system does not allow it.
  }
}
