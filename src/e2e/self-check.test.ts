import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SEAL_BYTES } from "../executable/seal.ts";
import { upToDateBinary } from "./binary.ts";

/** `shruti doctor --self` finds each damage, or the executable cannot run at all: never exit status 0. */

const folder = mkdtempSync(join(tmpdir(), "shruti-self-"));
afterAll(() => rmSync(folder, { recursive: true }));
const copy = join(folder, "shruti");
/** Evenly over the file: ELF header, the runtime's code and data, program, libraries, weights, section table. */
const PLACES = 20;

beforeAll(async () => {
  copyFileSync(await upToDateBinary(), copy);
}, 600_000);

async function check(...command: string[]): Promise<{ code: number; out: string }> {
  // A damaged program may also run for ever.
  const child = Bun.spawn(["timeout", "-s", "KILL", "30", ...command], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", HOME: folder },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "ignore",
  });
  const out = await child.stdout.text();
  return { code: await child.exited, out };
}

/** The same check with programs of the system alone, as docs/release.md section 6 shows it. */
const IN_SHELL = `
  bytes=$(($(stat -c %s "$1") - ${SEAL_BYTES}))
  test "$(tail -c ${SEAL_BYTES} "$1" | sed -n 's/^#shruti-seal 1 bytes=[0-9]* sha256=\\([0-9a-f]*\\) *$/\\1/p')" = \\
    "$(head -c $bytes "$1" | sha256sum | cut -d ' ' -f 1)"`;

async function expectDamageFound(what: string): Promise<void> {
  const self = await check(copy, "doctor", "--self");
  const shell = await check("bash", "-c", IN_SHELL, "bash", copy);
  expect({ what, self: self.code === 0, shell: shell.code === 0 }).toEqual({
    what,
    self: false,
    shell: false,
  });
}

/** Changes bytes of the copy while `use` runs. */
async function withFlipped(at: number, count: number, use: () => Promise<void>): Promise<void> {
  const file = openSync(copy, "r+");
  const original = Buffer.alloc(count);
  try {
    readSync(file, original, 0, count, at);
    const flipped = original.map((byte) => byte ^ 0xff);
    writeSync(file, flipped, 0, count, at);
  } finally {
    closeSync(file);
  }
  try {
    await use();
  } finally {
    const again = openSync(copy, "r+");
    writeSync(again, original, 0, count, at);
    closeSync(again);
  }
}

test("an undamaged executable says so, and the shell's check agrees", async () => {
  const self = await check(copy, "doctor", "--self", "--json");
  expect(self.code).toBe(0);
  const findings = JSON.parse(self.out) as { check: string; ok: boolean }[];
  expect(findings.map(({ check: name, ok }) => `${name} ${ok}`)).toEqual(["executable true", "parts true"]);
  expect((await check("bash", "-c", IN_SHELL, "bash", copy)).code).toBe(0);
}, 60_000);

test("one changed byte is found wherever it is", async () => {
  const { size } = statSync(copy);
  for (let place = 0; place < PLACES; place++) {
    const at = Math.floor(((place + 0.5) * size) / PLACES);
    await withFlipped(at, 1, () => expectDamageFound(`byte ${at}`));
  }
}, 300_000);

test("changes of the ELF header, the seal and its end are found", async () => {
  const { size } = statSync(copy);
  for (const at of [
    1,
    24,
    size - 1,
    size - SEAL_BYTES,
    size - SEAL_BYTES + 20,
    size - SEAL_BYTES + 60,
    size - 3,
  ])
    await withFlipped(at, 1, () => expectDamageFound(`byte ${at}`));
}, 120_000);

test("24 overwritten bytes in a library are found, and the library is named", async () => {
  const { size } = statSync(copy);
  // The executable carries libraries in compressed form. These bytes are from the middle of one.
  const packed = readFileSync(join(import.meta.dir, "../../build/native/libonnxruntime.so.zst"));
  const at = await positionOf(packed.subarray(packed.length / 2, packed.length / 2 + 24), size);
  await withFlipped(at, 24, async () => {
    const { code, out } = await check(copy, "doctor", "--self");
    expect({ code, out }).toMatchObject({
      code: 1,
      out: expect.stringMatching(/^BAD +executable damaged: .*\nBAD +parts +damaged: libonnxruntime\.so\n$/),
    });
  });
}, 60_000);

/** Finds bytes in the copy, piece by piece. */
async function positionOf(marker: Buffer, size: number): Promise<number> {
  const pieceBytes = 8 * 1024 * 1024;
  for (let at = 0; at < size; at += pieceBytes - marker.length) {
    const piece = Buffer.from(
      await Bun.file(copy)
        .slice(at, at + pieceBytes)
        .arrayBuffer(),
    );
    const found = piece.indexOf(marker);
    if (found !== -1) return at + found;
  }
  throw new Error("the bytes are not in the executable");
}

test("an executable that was cut off, stripped or lengthened is found", async () => {
  const { size } = statSync(copy);
  const changed = join(folder, "changed");
  const commands = {
    "cut off": `head -c ${size - 1000} "$0" > "$1"`,
    "without the seal": `head -c ${size - SEAL_BYTES} "$0" > "$1"`,
    lengthened: `cat "$0" > "$1"; echo >> "$1"`,
    stripped: `strip -o "$1" "$0"`,
  };
  for (const [what, command] of Object.entries(commands)) {
    expect((await check("bash", "-c", `${command} && chmod 755 "$1"`, copy, changed)).code).toBe(0);
    expect({ what, code: (await check(changed, "doctor", "--self")).code }).not.toEqual({ what, code: 0 });
  }
}, 120_000);
