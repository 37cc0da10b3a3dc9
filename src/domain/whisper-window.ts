/** Audio that Whisper encodes at once, milliseconds. */
export const WINDOW_MS = 30_000;
/**
 * Speech of this length, milliseconds, still goes into one window: it is played up to a twentieth faster. People differ
 * by more in how fast they speak.
 */
export const LONGEST_WINDOW_MS = 31_500;
