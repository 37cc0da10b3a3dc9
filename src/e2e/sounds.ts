import { seededRandom } from "../testing/makers/audio-makers.ts";
import { formatOf, pcmOf, wavFile } from "./samples.ts";

/** Functions that make recordings with one fault each, from clean speech or synthesized. Samples are within −1 and 1. */
export type Sound = { rateHz: number; channels: Float32Array[] };

export const fromDb = (db: number): number => 10 ** (db / 20);

/** Reads one of `models/samples`. */
export function sampleSound(name: string): Sound {
  const { rateHz, channels: count } = formatOf(name);
  const bytes = pcmOf(name);
  const pcm = new Int16Array(bytes.buffer, bytes.byteOffset, Math.floor(bytes.byteLength / 2));
  const channels = Array.from({ length: count }, (_, channel) =>
    Float32Array.from(
      { length: Math.floor(pcm.length / count) },
      (_, index) => (pcm[index * count + channel] ?? 0) / 32_768,
    ),
  );
  return { rateHz, channels };
}

/** Makes a 16-bit PCM WAV file. Samples beyond full scale are clipped. */
export function wavOf({ rateHz, channels }: Sound): Uint8Array<ArrayBuffer> {
  const count = channels.length;
  const samples = channels[0]?.length ?? 0;
  const pcm = new DataView(new ArrayBuffer(samples * count * 2));
  for (const [channel, values] of channels.entries()) {
    for (const [index, value] of values.entries()) {
      const clipped = Math.max(-32_768, Math.min(32_767, Math.round(value * 32_768)));
      pcm.setInt16((index * count + channel) * 2, clipped, true);
    }
  }
  return wavFile([new Uint8Array(pcm.buffer)], { rateHz, channels: count });
}

export function amplified({ rateHz, channels }: Sound, gainDb: number): Sound {
  const gain = fromDb(gainDb);
  return { rateHz, channels: channels.map((values) => values.map((value) => value * gain)) };
}

/** Joins mono sounds as channels. Shorter sounds end in silence. */
export function asChannels(...sounds: Sound[]): Sound {
  const length = Math.max(...sounds.map(({ channels }) => channels[0]?.length ?? 0));
  return {
    rateHz: sounds[0]?.rateHz ?? 16_000,
    channels: sounds.map(({ channels }) => {
      const padded = new Float32Array(length);
      padded.set(channels[0] ?? []);
      return padded;
    }),
  };
}

/** Joins mono sounds one after the other. */
export function joined(...sounds: Sound[]): Sound {
  const parts = sounds.map(({ channels }) => channels[0] ?? new Float32Array());
  const whole = new Float32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return { rateHz: sounds[0]?.rateHz ?? 16_000, channels: [whole] };
}

export function silence(seconds: number): Sound {
  return generated(seconds, () => 0);
}

/** Makes white noise of this level (RMS). */
export function whiteNoise(seconds: number, levelDb: number, seed = 1): Sound {
  const random = seededRandom(seed);
  const peak = fromDb(levelDb) * Math.sqrt(3);
  return generated(seconds, () => (random() * 2 - 1) * peak);
}

/** Makes noise like that of a street or a fan, mostly below 500 Hz. */
export function rumble(seconds: number, levelDb: number, seed = 2): Sound {
  const random = seededRandom(seed);
  let state = 0;
  const gain = fromDb(levelDb) * Math.sqrt(3) * Math.sqrt((2 - 0.1) / 0.1);
  return generated(seconds, () => {
    state += 0.1 * (random() * 2 - 1 - state);
    return state * gain;
  });
}

export function tone(seconds: number, hertz: number, levelDb: number): Sound {
  const peak = fromDb(levelDb) * Math.SQRT2;
  return generated(seconds, (second) => peak * Math.sin(2 * Math.PI * hertz * second));
}

/** Makes a simple tune: three plucked notes at once, four times a second. */
export function music(seconds: number, levelDb: number): Sound {
  const steps = [0, 4, 7, 12, 7, 4, 5, 9];
  const peak = fromDb(levelDb) * 0.8;
  return generated(seconds, (second) => {
    const beat = Math.floor(second * 4);
    const since = second - beat / 4;
    let sum = 0;
    for (const voice of [0, 12, 19]) {
      const hertz = 196 * 2 ** (((steps[beat % steps.length] ?? 0) + voice) / 12);
      for (let harmonic = 1; harmonic <= 4; harmonic++) {
        sum += Math.sin(2 * Math.PI * hertz * harmonic * second) / harmonic ** 1.5;
      }
    }
    return peak * sum * Math.exp(-5 * since);
  });
}

/** Reduces a sound to that of a telephone: below 3.4 kHz, sampled at 8 kHz. */
export function telephoned(sound: Sound): Sound {
  const reach = 64;
  const cutoff = 3_400 / sound.rateHz;
  const kernel = Float32Array.from({ length: 2 * reach + 1 }, (_, index) => {
    const x = index - reach;
    const sinc = x === 0 ? 2 * cutoff : Math.sin(2 * Math.PI * cutoff * x) / (Math.PI * x);
    return sinc * (0.54 + 0.46 * Math.cos((Math.PI * x) / reach));
  });
  const step = sound.rateHz / 8_000;
  const channels = sound.channels.map((values) =>
    Float32Array.from({ length: Math.floor(values.length / step) }, (_, index) => {
      let sum = 0;
      for (let tap = -reach; tap <= reach; tap++) {
        sum += (values[index * step + tap] ?? 0) * (kernel[tap + reach] ?? 0);
      }
      return sum;
    }),
  );
  return { rateHz: 8_000, channels };
}

function generated(seconds: number, valueAt: (second: number) => number): Sound {
  const rateHz = 16_000;
  const values = Float32Array.from({ length: Math.round(seconds * rateHz) }, (_, index) =>
    valueAt(index / rateHz),
  );
  return { rateHz, channels: [values] };
}
