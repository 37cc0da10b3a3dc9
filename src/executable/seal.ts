/**
 * The seal of an executable: one line of text behind its last byte, with the SHA-256 of all bytes before it. The build
 * writes it; `shruti doctor --self` and install.sh compare it. It has a fixed length, so that a shell can check it
 * without running the executable (docs/release.md section 6).
 */
export type Seal = { bytes: number; sha256: string };

/** Length of the line, both line ends included. */
export const SEAL_BYTES = 112;

const FORM = /^\n#shruti-seal 1 bytes=(\d{12}) sha256=([0-9a-f]{64}) *\n$/;

/** Returns the line for an executable of `bytes` bytes with this lower-case hex SHA-256. */
export function renderSeal({ bytes, sha256 }: Seal): string {
  const text = `\n#shruti-seal 1 bytes=${String(bytes).padStart(12, "0")} sha256=${sha256}`;
  return `${text.padEnd(SEAL_BYTES - 1)}\n`;
}

/** Reads the last `SEAL_BYTES` bytes of an executable. Returns undefined when they are no seal. */
export function readSeal(end: string): Seal | undefined {
  const [, bytes, sha256] = FORM.exec(end) ?? [];
  return bytes === undefined || sha256 === undefined ? undefined : { bytes: Number(bytes), sha256 };
}
