import type { Page } from "playwright-core";
import type { Transcription, TranscriptionResult, Waveform } from "../../http/wire/schemas.ts";

/** A transcription that a page is shown instead of one of the server: recordings that no test model could write down. */
export type MadeTranscript = { one: Transcription; result: TranscriptionResult; waveform: Waveform };

type Spoken = { text: string; language: string; speaker?: number; confidence?: number };

/** Turns of three speakers, some of them in doubt. */
export const CONVERSATION: readonly Spoken[] = [
  { text: "नमस्ते, आप कैसे हैं?", language: "hi", speaker: 1, confidence: 0.95 },
  {
    text: "मैं ठीक हूँ, धन्यवाद। आज मौसम बहुत अच्छा है और हम लोग बाज़ार जा रहे हैं।",
    language: "hi",
    speaker: 2,
  },
  { text: "क्या आप भी चलेंगे? वहाँ नई किताबों की दुकान खुली है।", language: "hi", speaker: 2, confidence: 0.72 },
  { text: "हाँ, ज़रूर। पाँच बजे मिलते हैं।", language: "hi", speaker: 1 },
  { text: "मैं गाड़ी ले आऊँगा।", language: "hi", speaker: 3, confidence: 0.41 },
];

/** A greeting in each script that transcripts have. */
export const SCRIPTS: readonly Spoken[] = [
  { text: "السلام علیکم، آپ کیسے ہیں؟ آج موسم بہت اچھا ہے۔", language: "ur" },
  { text: "توهان ڪيئن آهيو؟ اڄ موسم ڏاڍي سٺي آهي.", language: "sd" },
  { text: "تُہؠ کِتھ پٲٹھؠ چھِو؟", language: "ks" },
  { text: "வணக்கம், எப்படி இருக்கிறீர்கள்?", language: "ta" },
  { text: "নমস্কার, আপনি কেমন আছেন?", language: "bn" },
  { text: "నమస్కారం, మీరు ఎలా ఉన్నారు?", language: "te" },
  { text: "ನಮಸ್ಕಾರ, ಹೇಗಿದ್ದೀರಿ?", language: "kn" },
  { text: "നമസ്കാരം, സുഖമാണോ?", language: "ml" },
  { text: "નમસ્તે, કેમ છો?", language: "gu" },
  { text: "ਸਤ ਸ੍ਰੀ ਅਕਾਲ, ਤੁਸੀਂ ਕਿਵੇਂ ਹੋ?", language: "pa" },
  { text: "ନମସ୍କାର, ଆପଣ କେମିତି ଅଛନ୍ତି?", language: "or" },
  { text: "ᱡᱚᱦᱟᱨ, ᱟᱢ ᱪᱮᱫ ᱞᱮᱠᱟ ᱢᱮᱱᱟᱢᱟ?", language: "sat" },
  { text: "ꯈꯨꯔꯨꯝꯖꯔꯤ, ꯅꯍꯥꯛ ꯀꯔꯝꯅ ꯂꯩꯕꯒꯦ?", language: "mni" },
  { text: "नमस्कार, कसे आहात?", language: "mr" },
];

const SECONDS_PER_PEAK = 0.02;

/** Makes a transcript in which one text follows the other. */
export function madeTranscript(
  spoken: readonly Spoken[],
  { secondsEach = 4, number = 0, gap }: { secondsEach?: number; number?: number; gap?: number } = {},
): MadeTranscript {
  const id = `tr_01KAJ5M0X2V7Q4N8R6T3Y9Z${String(number).padStart(3, "0")}`;
  const seconds = spoken.length * secondsEach;
  const shape = { model: "indic-large", version: "1.0", mode: "native" } as const;
  const start = (index: number) => Math.round((index * secondsEach + 0.3) * 1000) / 1000;
  const segments = spoken.map(({ text, language, speaker, confidence = 0.93 }, index) => ({
    index,
    start: start(index),
    end: start(index) + secondsEach - 0.8,
    text,
    language,
    confidence,
    ...(speaker === undefined ? {} : { speaker: `speaker_${speaker}` }),
  }));
  const kept = segments.filter(({ index }) => index !== gap).map((segment, index) => ({ ...segment, index }));
  const missing = gap === undefined ? undefined : segments[gap];
  const request = {
    language: spoken[0]?.language ?? "hi",
    mode: "native",
    timestamps: "segment",
    diarization: spoken.some(({ speaker }) => speaker !== undefined),
    channel_mode: "mix",
  } as const;
  const status = missing ? "partial" : "completed";
  return {
    one: {
      ...{ id, object: "transcription", model: shape.model, version: shape.version, state: status, request },
      created_at: "2026-11-22T08:05:06.789Z",
      finished_at: "2026-11-22T08:09:30.120Z",
      duration_seconds: seconds,
      progress: 1,
    },
    result: {
      ...{ id, object: "transcription.result", ...shape, status, duration_seconds: seconds, channels: 1 },
      languages: [...new Set(spoken.map(({ language }) => language))],
      text: kept.map(({ text }) => text).join(" "),
      segments: kept,
      warnings: missing ? ["narrowband_audio", "suspected_hallucination"] : [],
      ...(missing ? { gaps: [{ start: missing.start, end: missing.end, reason: "engine_error" }] } : {}),
    },
    waveform: {
      ...{
        id,
        object: "transcription.waveform",
        duration_seconds: seconds,
        seconds_per_peak: SECONDS_PER_PEAK,
      },
      lanes: [{ peaks: peaksOf(seconds, secondsEach), speech: segments.map((one) => [one.start, one.end]) }],
    },
  };
}

/** Peaks that rise and fall as words do, always the same. */
function peaksOf(seconds: number, secondsEach: number): string {
  const count = Math.ceil(seconds / SECONDS_PER_PEAK);
  const bytes = new Uint8Array(count);
  let random = 1;
  for (let index = 0; index < count; index++) {
    random = (random * 48271) % 2147483647;
    const at = (index * SECONDS_PER_PEAK) % secondsEach;
    const isSpeech = at > 0.3 && at < secondsEach - 0.5;
    const syllable = Math.abs(Math.sin(at * 9)) * (0.6 + (random % 100) / 250);
    bytes[index] = isSpeech ? 30 + syllable * 170 : 2 + (random % 5);
  }
  return Buffer.from(bytes).toString("base64");
}

/** A WAV file of silence. */
function silentWav(seconds: number): Buffer {
  const rate = 8000;
  const bytes = Math.round(seconds * rate);
  const wav = Buffer.alloc(44 + bytes, 128);
  wav.write("RIFF", 0);
  wav.writeUInt32LE(36 + bytes, 4);
  wav.write("WAVEfmt ", 8);
  wav.writeUInt32LE(16, 16);
  wav.writeUInt16LE(1, 20);
  wav.writeUInt16LE(1, 22);
  wav.writeUInt32LE(rate, 24);
  wav.writeUInt32LE(rate, 28);
  wav.writeUInt16LE(1, 32);
  wav.writeUInt16LE(8, 34);
  wav.write("data", 36);
  wav.writeUInt32LE(bytes, 40);
  return wav;
}

/** Answers a page's requests for made transcripts; all others go to the server. */
export async function showMade(page: Page, made: readonly MadeTranscript[]): Promise<void> {
  for (const { one, result, waveform } of made) {
    const wav = silentWav(one.duration_seconds ?? 1);
    const path = `**/v1/transcriptions/${one.id}`;
    await page.route(path, (route) => route.fulfill({ json: one }));
    await page.route(`${path}/result*`, (route) => route.fulfill({ json: result }));
    await page.route(`${path}/waveform`, (route) => route.fulfill({ json: waveform }));
    await page.route(`${path}/audio_links`, (route) =>
      route.fulfill({
        status: 201,
        json: {
          ...{ id: one.id, object: "transcription.audio_link", expires_at: "2026-11-23T00:00:00.000Z" },
          url: `http://localhost/v1/transcriptions/${one.id}/audio?link=made`,
        },
      }),
    );
    await page.route(`${path}/audio?*`, (route) => {
      const [, from = "0", to = ""] =
        /bytes=(\d+)-(\d*)/.exec(route.request().headers().range ?? "bytes=0-") ?? [];
      const end = Math.min(wav.length - 1, to === "" ? Number(from) + 1_000_000 : Number(to));
      return route.fulfill({
        status: 206,
        contentType: "audio/wav",
        headers: { "accept-ranges": "bytes", "content-range": `bytes ${from}-${end}/${wav.length}` },
        body: wav.subarray(Number(from), end + 1),
      });
    });
  }
  const list = { object: "list", data: made.map(({ one }) => one), next: null };
  await page.route(/\/v1\/transcriptions\?/, (route) => route.fulfill({ json: list }));
}
