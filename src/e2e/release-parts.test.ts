import { beforeAll, expect, test } from "bun:test";
import { resolve } from "node:path";
import { RELEASE_BUILD_LIMIT_MS, releaseBinary } from "./binary.ts";

/**
 * The native parts of a release for x86-64, with the tests of this machine's parts: all processor code is tested. It is a file
 * of its own, so that it runs beside the tests of the release's executable.
 */

const ROOT = resolve(import.meta.dir, "../..");

beforeAll(async () => {
  await releaseBinary("linux-x64");
}, RELEASE_BUILD_LIMIT_MS);

test.each([
  "src/engine/whisper/weights.test.ts",
  "src/engine/whisper/precision.test.ts",
  "src/engine/whisper/processor-code.test.ts",
  "src/native/silero/silero.test.ts",
  "src/engine/audio/decode.test.ts",
  "src/native/onnx/onnx-addon.test.ts",
  "src/diarization/diarize-neural.test.ts",
])(
  "%s",
  async (file) => {
    const command = [process.execPath, "test", "--conditions=shruti-linux-x64", "--timeout", "120000", file];
    const child = Bun.spawn(command, { cwd: ROOT, stdout: "pipe", stderr: "pipe" });
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    expect({ code: await child.exited, said: out + err }).toMatchObject({ code: 0 });
  },
  600_000,
);
