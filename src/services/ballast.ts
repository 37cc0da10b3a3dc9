import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  rmSync,
  statSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { freeBytesOf, totalBytesOf } from "../lib/disk-space.ts";
import { giveToOwner } from "../lib/give-to-owner.ts";
import { asOwnerOf } from "../lib/rights.ts";
import { isDiskFull, isWaitedOut } from "../store/disk-full.ts";
import { makePrivateFile } from "../store/private-file.ts";

/**
 * The ballast: a file of random bytes in the data directory. On a full disk, commands of an emergency make it smaller, so
 * that they can write the few records that they need. The server makes it large again when there is space.
 */

const BALLAST_FILE = "ballast";
const MIB = 1024 * 1024;
/**
 * What a command frees at a time: more than its records need, and so little that many commands find some, also where other
 * programs take all that gets free.
 */
const STEP_BYTES = MIB / 2;
/** The largest share of a small disk. */
const SHARE_OF_DISK = 1 / 16;
/** The disk must have this many times the space that the ballast lacks. */
const SPARE_FACTOR = 4;
/** With less free space a command frees some before it writes anything. */
const SCARCE_BYTES = MIB / 4;

/** `foreign`: something else has the name of the ballast, and is left as it is. */
export type BallastState = { bytes: number; isForeign: boolean };

const FOREIGN: BallastState = { bytes: 0, isForeign: true };

/**
 * Makes the ballast, or what it lacks of its size, as far as the disk has much more space than that. Other work of the
 * event loop runs in between.
 *
 * @param wantedBytes its size (`storage.ballast_bytes`), on a small disk less; 0: none
 * @throws the system's error
 */
export function fillBallast(dataDir: string, wantedBytes: number): Promise<BallastState> {
  return asOwnerOf(join(dataDir, BALLAST_FILE), () => fill(dataDir, wantedBytes));
}

async function fill(dataDir: string, wantedBytes: number): Promise<BallastState> {
  const size = Math.min(wantedBytes, Math.floor((totalBytesOf(dataDir) * SHARE_OF_DISK) / MIB) * MIB);
  const state = stateOf(dataDir);
  if (state.isForeign || state.bytes === size) return state;
  if (size < state.bytes) return shrink(dataDir, size);
  if (freeBytesOf(dataDir) < SPARE_FACTOR * (size - state.bytes)) return state;
  return grow(dataDir, size);
}

async function grow(dataDir: string, size: number): Promise<BallastState> {
  const path = join(dataDir, BALLAST_FILE);
  if (!existsSync(path)) {
    makePrivateFile(path);
    giveToOwner(path);
  }
  const { O_WRONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK);
  // Not zeros: a file system that compresses would keep no space for them.
  const piece = crypto.getRandomValues(Buffer.alloc(MIB / 16));
  try {
    if (!isOwn(file.fd, dataDir)) return FOREIGN;
    for (let at = (await file.stat()).size; at < size; at = (await file.stat()).size)
      await file.write(piece, 0, Math.min(piece.length, size - at), at);
  } catch (error) {
    // Another program has taken the space. What there is now is better than nothing.
    if (!isDiskFull(error)) throw error;
  } finally {
    await file.close();
  }
  return stateOf(dataDir);
}

/** Returns what there is of the ballast. */
export function ballastState(dataDir: string): BallastState {
  return asOwnerOf(join(dataDir, BALLAST_FILE), () => stateOf(dataDir));
}

function stateOf(dataDir: string): BallastState {
  return withBallast(dataDir, (file) => ({ bytes: fstatSync(file).size, isForeign: false })) ?? FOREIGN;
}

/**
 * Frees a step of the ballast.
 *
 * @param when `scarce`: only where the disk has hardly any space
 * @returns the bytes that were freed; 0: there is no ballast, or this user may not change it
 */
export function freeBallast(dataDir: string, when: "scarce" | "now"): number {
  try {
    if (when === "scarce" && freeBytesOf(dataDir) >= SCARCE_BYTES) return 0;
    return asOwnerOf(join(dataDir, BALLAST_FILE), () => {
      const { bytes } = stateOf(dataDir);
      return bytes - shrink(dataDir, Math.max(0, bytes - STEP_BYTES)).bytes;
    });
  } catch {
    return 0;
  }
}

/**
 * Runs synchronous work, and again after each step of the ballast while the disk is full. The work must have had no effect
 * when it fails.
 *
 * @throws what the work throws once the ballast is used up
 */
function withFreedBallast<T>(dataDir: string, work: () => T): T {
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isDiskFull(error) || freeBallast(dataDir, "now") === 0) throw error;
    }
  }
}

/**
 * Records something that is done already, such as a backup on another disk: where the data directory's disk is full, with
 * space of the ballast.
 *
 * @returns why it could not be recorded, when the disk is full or the database is locked all the same
 * @throws what else `record` throws
 */
export function failureToRecord(dataDir: string, record: () => void): unknown {
  try {
    withFreedBallast(dataDir, record);
    return undefined;
  } catch (error) {
    if (isWaitedOut(error)) return error;
    throw error;
  }
}

function shrink(dataDir: string, size: number): BallastState {
  const state = withBallast(dataDir, (file) => {
    if (fstatSync(file).size > size) ftruncateSync(file, size);
    return { bytes: fstatSync(file).size, isForeign: false };
  });
  if (state?.bytes === 0) rmSync(join(dataDir, BALLAST_FILE), { force: true });
  return state ?? FOREIGN;
}

/**
 * Opens the ballast. A link in its place is not followed, and a file that has another name, too, or another owner, is not
 * the ballast: another user may have put it there, so that a command of root changes what it leads to.
 *
 * @returns undefined where it is something else; an empty state where there is none
 */
function withBallast(dataDir: string, look: (file: number) => BallastState): BallastState | undefined {
  const { O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants;
  let file: number;
  try {
    file = openSync(join(dataDir, BALLAST_FILE), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") return { bytes: 0, isForeign: false };
    if (["ELOOP", "EISDIR", "ENXIO", "EACCES"].includes(code ?? "")) return undefined;
    throw error;
  }
  try {
    return isOwn(file, dataDir) ? look(file) : undefined;
  } finally {
    closeSync(file);
  }
}

/** The folder of a volume may be root's, as in Kubernetes. What a user who is not root has made there is that user's own. */
function isOwn(file: number, dataDir: string): boolean {
  const facts = fstatSync(file);
  const user = process.geteuid?.() ?? 0;
  const isUsers = user !== 0 && facts.uid === user;
  return facts.isFile() && facts.nlink === 1 && (isUsers || facts.uid === statSync(dataDir).uid);
}
