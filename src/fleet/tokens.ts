import { createHmac } from "node:crypto";
import { equalsConstantTime } from "../lib/sha256.ts";

/** How long a worker may fetch the audio of a ticket. */
const TOKEN_MS = 10 * 60_000;

/**
 * Tokens that the control plane gives with a ticket, and checks without keeping them. They hold for one job. The secret
 * is a file, so tokens hold across a restart.
 */
export type JobTokens = {
  /** Makes the token for fetching the audio of a job. */
  audioToken(job: string): string;
  opensAudio(job: string, token: string): boolean;
  /** Makes the proof that accompanies a result. It does not expire, because a result may wait for a long repair. */
  proof(job: string): string;
  proves(job: string, proof: string): boolean;
};

/** @param now returns milliseconds since 1970 */
export function createJobTokens(secret: string, now: () => number): JobTokens {
  const macOf = (text: string) => createHmac("sha256", secret).update(text).digest("base64url");
  const audioMac = (job: string, until: string) => macOf(`audio ${job} ${until}`);
  const proof = (job: string) => macOf(`result ${job}`);
  return {
    audioToken(job) {
      const until = String(now() + TOKEN_MS);
      return `${until}.${audioMac(job, until)}`;
    },
    opensAudio(job, token) {
      const [until = "", mac = ""] = token.split(".");
      // The comparison comes first, so that its time does not depend on the rest.
      return (
        equalsConstantTime(mac, audioMac(job, until)) && /^\d{1,16}$/.test(until) && Number(until) > now()
      );
    },
    proof,
    proves: (job, given) => equalsConstantTime(given, proof(job)),
  };
}
