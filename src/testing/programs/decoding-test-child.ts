/**
 * Scenarios of engine/whisper/decoding.test.ts in a process of their own: `bun decoding-test-child.ts NATIVE_DIR SCENARIO
 * JSON` prints one line of JSON.
 */

import { join } from "node:path";
import { LANGUAGES } from "../../domain/languages.ts";
import { MODES } from "../../domain/transcription.ts";
import { charactersWithout } from "../../engine/whisper/characters.ts";
import { openWhisperRecognizer } from "../../engine/whisper/whisper-recognizer.ts";
import { FAMILIES } from "../../families/families.ts";
import { chooseVariant, usableVariants } from "../../native/cpu-variants.ts";
import type { NativeFiles } from "../../native/native-files.ts";
import { readProcessor } from "../../native/processor.ts";
import { loadWhisperAddon, type NativeAddon, type NativeModel } from "../../native/whisper/whisper-addon.ts";
import { recognizeGuarded } from "../../pipeline/guarded-recognition.ts";
import { hasForeignScript, heldBackCharacter } from "../../pipeline/wording.ts";
import { engineOptions } from "../kits/test-config.ts";
import { seededRandom } from "../makers/audio-makers.ts";
import { readSamples } from "./whisper-test-child.ts";

/** What random texts of a language in a mode have: characters, and those that do not belong there. */
export type RandomText = { language: string; mode: string; characters: number; foreign: string };

const [nativeDir, scenario, json] = process.argv.slice(2);
if (import.meta.main && nativeDir !== undefined && json !== undefined) {
  const addon = loadWhisperAddon(join(nativeDir, "smart-whisper.addon"));
  const request = JSON.parse(json) as { model: string; tokens: number; texts: string[]; sounds: Sound[] };
  const scenarios: Record<string, () => unknown> = {
    loops: () => request.texts.map((text) => addon.findLoop(text) ?? null),
    randomTexts: () => randomTexts(addon, request),
    efforts: () => efforts(request),
  };
  console.log(JSON.stringify(await scenarios[scenario ?? ""]?.()));
}

/**
 * Continues texts with random tokens of those that may follow, `tokens` in all.
 *
 * @throws TypeError for a text that is not UTF-8
 */
async function randomTexts(
  addon: NativeAddon,
  { model: path, tokens }: { model: string; tokens: number },
): Promise<RandomText[]> {
  const { chosen } = chooseVariant(
    usableVariants(nativeDir ?? "", addon.scoreCpuLibraries, readProcessor()),
    [],
  );
  addon.loadBackends(chosen.path, [], true);
  const model = await addon.WhisperModel.load(path, { useGpu: false, gpuDevice: 0, flashAttention: true });
  const random = seededRandom(1);
  const cases = LANGUAGES.flatMap(({ code }) => MODES.map((mode) => ({ language: code, mode })));
  const each = Math.ceil(tokens / cases.length);
  const found = cases.map(({ language, mode }) => {
    const bytes = randomText(model, heldBackCharacter(language, mode) ?? "", each, random);
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    const characters = [...text];
    const foreign = characters.filter((one) => hasForeignScript(one, language, mode));
    const isVerbatimSign = (one: string) => mode === "verbatim" && /[\p{Nd}%$₹€£]/u.test(one);
    foreign.push(...characters.filter(isVerbatimSign));
    return {
      ...{ language, mode, characters: characters.length },
      foreign: foreign.slice(0, 10).join(""),
    };
  });
  await model.free();
  return found;
}

function randomText(model: NativeModel, heldBack: string, count: number, random: () => number): Uint8Array {
  const { bytes, ends } = model.tokens();
  const characters = charactersWithout(heldBack);
  /** The tokens that may follow, by the bytes of an unfinished character. */
  const following = new Map<string, number[]>();
  const text: number[] = [];
  for (let step = 0; step < count; step++) {
    const unfinished = unfinishedBytes(text);
    const key = unfinished.join();
    let allowed = following.get(key);
    if (!allowed) {
      const excluded = model.excluded(characters, Uint8Array.from(unfinished));
      allowed = Array.from(excluded.keys()).filter((id) => excluded[id] === 0 && widthOf(ends, id) > 0);
      following.set(key, allowed);
    }
    const id = allowed[Math.floor(random() * allowed.length)];
    // Only the end of the text may follow. In the text of another window a character begins.
    if (id === undefined) text.length -= unfinished.length;
    else text.push(...bytes.subarray(ends[id - 1] ?? 0, ends[id]));
  }
  text.length -= unfinishedBytes(text).length;
  return Uint8Array.from(text);
}

/** A WAV file to recognize in a language. */
export type Sound = { name: string; language: string; wav: string };
/** What a chunk has cost as a share of clear speech of its length, how many calls it took, and its text. */
export type Effort = { name: string; language: string; effort: number; calls: number; text: string };

/** Recognizes each sound as a chunk, with all repetitions. */
async function efforts({ model: path, sounds }: { model: string; sounds: Sound[] }): Promise<Effort[]> {
  const code = { backendDirs: [], avoidedVariants: [], engine: engineOptions() };
  const recognizer = openWhisperRecognizer({ dir: nativeDir ?? "" } as NativeFiles, code);
  const loaded = await recognizer.load({ weights: path }, "cpu");
  const family = FAMILIES.of("whisper");
  const found: Effort[] = [];
  for (const { name, language, wav } of sounds) {
    const samples = readSamples(wav);
    const durationMs = samples.length / 16;
    const task = {
      ...{ family, durationMs },
      model: { languages: [{ code: language, name: language, modes: ["native" as const] }], decoding: {} },
      request: { language, mode: "native" as const, channelMode: "mix" as const },
    };
    let effort = 0;
    let calls = 0;
    const regions = [{ startSample: 0, endSample: samples.length }];
    const { segments } = await recognizeGuarded(task, { regions, channel: 0 }, async (parts, settings) => {
      const sound = joined(parts.map((part) => samples.subarray(part.startSample, part.endSample)));
      const options = { threads: 1, signal: new AbortController().signal };
      const recognition = await loaded.recognize(sound, settings, options);
      effort += recognition.effort ?? 0;
      calls++;
      return recognition;
    });
    found.push({ name, language, effort, calls, text: segments.map(({ text }) => text).join(" ") });
  }
  return found;
}

function joined(parts: readonly Float32Array[]): Float32Array {
  const all = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function widthOf(ends: Uint32Array, id: number): number {
  return (ends[id] ?? 0) - (ends[id - 1] ?? 0);
}

/** The bytes of the last character, where some of it are missing. */
function unfinishedBytes(text: readonly number[]): number[] {
  for (let back = 1; back <= Math.min(4, text.length); back++) {
    const byte = text[text.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return length > back ? text.slice(-back) : [];
  }
  return [];
}
