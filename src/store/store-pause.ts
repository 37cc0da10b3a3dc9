/** Time after which a store that could not be read or written is tried again. */
export const STORE_PAUSE_MS = 1_000;
