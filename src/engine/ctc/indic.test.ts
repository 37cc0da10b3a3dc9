import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CtcSettings } from "../../families/ctc/settings.ts";
import { FAMILIES } from "../../families/families.ts";
import { extractNativeFiles } from "../../native/native-files.ts";
import { wordErrors } from "../../pipeline/wer.ts";
import { filesOf } from "../../services/models/model-files.ts";
import { engineOptions } from "../../testing/kits/test-config.ts";
import { type IndicForm, writeIndic } from "../../testing/makers/indic-maker.ts";
import { TINY_CTC, tinyRecordings } from "../../testing/makers/tiny-ctc.ts";
import { createWorkerHost, type WorkerHost } from "../workers/worker-host.ts";

/** IndicConformer in its published layout, made of the tiny model, and compared with that. */

const folder = mkdtempSync(join(tmpdir(), "shruti-indic-"));
const hosts: WorkerHost[] = [];
afterAll(async () => {
  for (const host of hosts) await host.stop(true);
  rmSync(folder, { recursive: true });
});

async function openHost(family: string, files: Record<string, string>): Promise<WorkerHost> {
  const opened = createWorkerHost({
    nativeFiles: await extractNativeFiles(folder),
    ...{ backendDirs: [], engine: engineOptions(), log: () => {}, opens: [family] },
    load: { files, device: "cpu" },
  });
  hosts.push(opened);
  return opened;
}

async function textOf(host: WorkerHost, pcm: Int16Array, settings: Partial<CtcSettings>): Promise<string> {
  const pcmPath = join(folder, `${Bun.hash(new Uint8Array(pcm.buffer))}.pcm`);
  writeFileSync(pcmPath, new Uint8Array(pcm.buffer));
  const slices = [{ sourceStartSample: 0, samples: pcm.length, targetStartSample: 0 }];
  const request = {
    type: "transcribe",
    audio: { pcmPath, slices, totalSamples: pcm.length },
    settings: { language: "hi", features: "kaldi", ...settings } as CtcSettings,
    threads: 1,
  } as const;
  const { signal } = new AbortController();
  const reply = await host.request(request, { signal, timeoutMs: 60_000, isAlone: false });
  if (reply.type !== "transcribed") throw new Error(reply.type);
  return JSON.stringify(reply.outcome.segments.map(({ text, startMs, endMs }) => ({ text, startMs, endMs })));
}

const indic = FAMILIES.of("indic_ctc");

/** Opens a made model, and returns what a request in a language gets of it. */
async function openIndic(form: IndicForm) {
  const path = join(folder, `${form.layout}-${form.weights}`);
  const tokens = writeIndic(path, form);
  const given = indic.given(path);
  if (!given || given.isPart) throw new Error("the folder was not found");
  const files = filesOf(indic, given.files());
  const { languages, decoding } = indic.describe(files, {});
  const host = await openHost("indic_ctc", files);
  const settingsOf = (language: string) =>
    indic.settingsFor({ language, mode: "native" }, { languages, decoding }) as CtcSettings;
  return { host, tokens, settingsOf };
}

/** What the tiny model writes with the tokens of one script alone. */
async function expectedTexts(): Promise<Record<"hi" | "en", string[]>> {
  const files = { model: join(TINY_CTC, "model.onnx"), tokens: join(TINY_CTC, "tokens.txt") };
  const tiny = await openHost("nemo_ctc", files);
  const write = (suppressTokens: string) =>
    Promise.all(tinyRecordings.map(({ pcm }) => textOf(tiny, pcm, { suppressTokens })));
  return { hi: await write(".*[a-z].*"), en: await write("<unk>|.*[\\p{Script=Devanagari}].*") };
}

describe("an IndicConformer in its published layout", () => {
  test.each(["ai4bharat", "vernacula"] as const)(
    "writes what the same net writes as one graph: %s",
    async (layout) => {
      const expected = await expectedTexts();
      const { host, settingsOf } = await openIndic({ layout });
      for (const language of ["hi", "en"] as const) {
        const { tokenSpan } = settingsOf(language);
        if (!tokenSpan) throw new Error("there is no span");
        const texts = await Promise.all(tinyRecordings.map(({ pcm }) => textOf(host, pcm, { tokenSpan })));
        expect(texts).toEqual(expected[language]);
      }
      if (layout === "ai4bharat")
        expect(readdirSync(join(folder, "ai4bharat-undefined")).length).toBeGreaterThan(70);
    },
    60_000,
  );

  test("with 8 bits makes hardly more errors", async () => {
    const [float, int8] = [await openIndic({ weights: "float" }), await openIndic({ weights: "int8" })];
    const errorsOf = async ({ host, settingsOf }: typeof float) => {
      let errors = 0;
      for (const { text, pcm } of tinyRecordings) {
        const { tokenSpan } = settingsOf(/[a-z]/.test(text) ? "en" : "hi");
        if (!tokenSpan) throw new Error("there is no span");
        const segments = JSON.parse(await textOf(host, pcm, { tokenSpan })) as { text: string }[];
        const found = wordErrors(text, segments.map((segment) => segment.text).join(" "));
        errors += found ? found.substitutions + found.deletions + found.insertions : 0;
      }
      return errors;
    };
    const [before, after] = [await errorsOf(float), await errorsOf(int8)];
    expect(after).toBeLessThanOrEqual(before + 5);
  }, 60_000);
});
