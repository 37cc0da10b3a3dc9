import { createHmac } from "node:crypto";
import { equalsConstantTime } from "../lib/sha256.ts";

/** How long a token holds at least. */
const TOKEN_MS = 10 * 60_000;

/**
 * What a token opens: the audio of a chunk, the files of a model, a recording, or the place for what a worker has made of
 * a recording.
 */
export type TokenPurpose = "audio" | "model" | "recording" | "prepared";

/**
 * Tokens that the control plane gives to workers, and checks without keeping them. Each holds for one job or one model,
 * and for one purpose. The secret is a file, so tokens hold across a restart.
 */
export type JobTokens = {
  /**
   * Makes a token.
   *
   * @param name the job's; for `prepared` that of one try at it; for `model` the SHA-256 by which machines find it
   * @param ms how long it holds, ten minutes at least
   */
  token(purpose: TokenPurpose, name: string, ms?: number): string;
  opens(purpose: TokenPurpose, name: string, token: string): boolean;
  /** Makes the proof that accompanies a result. It does not expire, because a result may wait for a long repair. */
  proof(job: string): string;
  proves(job: string, proof: string): boolean;
};

/** @param now returns milliseconds since 1970 */
export function createJobTokens(secret: string, now: () => number): JobTokens {
  const macOf = (text: string) => createHmac("sha256", secret).update(text).digest("base64url");
  const proof = (job: string) => macOf(`result ${job}`);
  return {
    token(purpose, name, ms = 0) {
      const until = String(Math.ceil(now() + Math.max(TOKEN_MS, ms)));
      return `${until}.${macOf(`${purpose} ${name} ${until}`)}`;
    },
    opens(purpose, name, token) {
      const [until = "", mac = "", ...rest] = token.split(".");
      // The comparison comes first, so that its time does not depend on the rest.
      return (
        equalsConstantTime(mac, macOf(`${purpose} ${name} ${until}`)) &&
        rest.length === 0 &&
        /^\d{1,16}$/.test(until) &&
        Number(until) > now()
      );
    },
    proof,
    proves: (job, given) => equalsConstantTime(given, proof(job)),
  };
}
