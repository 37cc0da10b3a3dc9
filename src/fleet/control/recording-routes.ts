import { constants } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { writeFully } from "../../lib/file-bytes.ts";
import { PIECE_BYTES } from "../pieces.ts";
import { maxBytesOf } from "../prepared-files.ts";
import type { JobTokens } from "../tokens.ts";
import { answerPiece } from "./file-piece.ts";
import { bare, type ListenerRoute } from "./listener.ts";
import type { WantedPreparation } from "./wanted-jobs.ts";

export type RecordingRoutesDeps = {
  tokens: Pick<JobTokens, "opens">;
  /** Returns a job that asks for a recording to be prepared; undefined: there is none, or it is not wanted any more. */
  find: (job: string) => WantedPreparation | undefined;
};

/** Makes the routes at which workers fetch recordings, and bring what they have made of them. */
export function recordingRoutes({ tokens, find }: RecordingRoutesDeps): ListenerRoute[] {
  return [
    {
      method: "GET",
      path: /^\/recordings\/([0-9a-f]{32})$/,
      answer({ request, token }, [id = ""]) {
        if (!tokens.opens("recording", id, token)) return bare(401);
        const wanted = find(id);
        return wanted ? answerPiece(request, wanted.job.path) : bare(404);
      },
    },
    {
      method: "PUT",
      path: /^\/prepared\/([0-9a-f]{32})\/([0-9a-f]{16})\/([a-z]+(?:-\d{1,3})?)$/,
      answer({ request, token }, [id = "", attempt = "", file = ""]) {
        if (!tokens.opens("prepared", `${id} ${attempt}`, token)) return bare(401);
        const wanted = find(id);
        return wanted ? takePiece(request, wanted, attempt, file) : bare(404);
      },
    },
  ];
}

/** Writes one piece of a file that a worker brings. A piece can be brought again. */
async function takePiece(
  request: Request,
  wanted: WantedPreparation,
  attempt: string,
  file: string,
): Promise<Response> {
  const most = maxBytesOf(file, boundsOf(wanted));
  if (most === undefined) return bare(404);
  const found = /^bytes (\d{1,15})-(\d{1,15})\/\*$/.exec(request.headers.get("content-range") ?? "");
  if (!found) return bare(400);
  const [start, end] = [Number(found[1]), Number(found[2]) + 1];
  if (end > most || end - start > PIECE_BYTES) return bare(413);
  // The server bounds a body to one piece.
  const bytes = await request.bytes();
  if (bytes.length !== end - start) return bare(400);
  const folder = join(wanted.folder, attempt);
  try {
    // The folder above is gone when the job is not wanted any more.
    await mkdir(folder, { mode: 0o700 }).catch(ifThere);
    await writeAt(join(folder, file), bytes, start);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return bare(404);
    return bare(code === "ENOSPC" ? 507 : 500);
  }
  return bare(204);
}

/** Returns the bounds of what a worker may bring. */
export function boundsOf({ job: { expected } }: WantedPreparation) {
  return { maxSamples: 16 * (expected.durationMs + expected.withinMs), tracks: expected.tracks };
}

function ifThere(error: NodeJS.ErrnoException): void {
  if (error.code !== "EEXIST") throw error;
}

async function writeAt(path: string, bytes: Uint8Array, start: number): Promise<void> {
  const file = await open(path, constants.O_WRONLY | constants.O_CREAT, 0o600);
  try {
    await writeFully(file, bytes, start);
  } finally {
    await file.close();
  }
}
