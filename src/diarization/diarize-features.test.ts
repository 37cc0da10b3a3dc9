import { describe, expect, test } from "bun:test";
import { COEFFICIENTS, createFrameAnalyzer, createRealFft, FRAME_SAMPLES } from "./diarize-features.ts";

test("the spectrum matches its definition", () => {
  for (const size of [8, 64, 512]) {
    const frame = Float64Array.from({ length: size }, (_, n) => Math.sin(n * n * 0.37) + 0.2 * (n % 3));
    const power = new Float64Array(size / 2 + 1);
    createRealFft(size)(frame, power);
    for (let k = 0; k <= size / 2; k++) {
      let re = 0;
      let im = 0;
      for (let n = 0; n < size; n++) {
        re += (frame[n] ?? 0) * Math.cos((2 * Math.PI * k * n) / size);
        im -= (frame[n] ?? 0) * Math.sin((2 * Math.PI * k * n) / size);
      }
      expect(power[k]).toBeCloseTo(re * re + im * im, 6);
    }
  }
});

describe("cepstral coefficients", () => {
  const tone = (hz: number, gain: number) =>
    Float32Array.from({ length: FRAME_SAMPLES }, (_, n) => gain * Math.sin((2 * Math.PI * hz * n) / 16_000));
  const of = (samples: Float32Array) => {
    const target = new Float32Array(COEFFICIENTS);
    createFrameAnalyzer().analyze(samples, 0, target, 0);
    return target;
  };
  const distance = (a: Float32Array, b: Float32Array) =>
    Math.sqrt(a.reduce((sum, value, index) => sum + (value - (b[index] ?? 0)) ** 2, 0));
  const noisy = (hz: number, gain: number) => {
    let seed = 1;
    return tone(hz, gain).map((sample) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return sample + gain * 0.05 * (seed / 2_147_483_647 - 0.5);
    });
  };

  test("a change of loudness changes nothing, and a change of spectrum does", () => {
    expect(distance(of(noisy(300, 0.1)), of(noisy(300, 0.4)))).toBeLessThan(0.01);
    expect(distance(of(noisy(300, 0.4)), of(noisy(3_000, 0.4)))).toBeGreaterThan(5);
  });

  test("digital silence gives zeros, never NaN", () => {
    expect([...of(new Float32Array(FRAME_SAMPLES))].every((value) => Math.abs(value) < 1e-4)).toBe(true);
  });
});
