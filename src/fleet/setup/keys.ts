import { createUser, fromSeed } from "@nats-io/nkeys";

/** A member's key pair for the messaging server: an NKEY, which is Ed25519. The server knows the public half only. */
export type MemberKey = { seed: string; publicKey: string };

export function makeMemberKey(): MemberKey {
  const pair = createUser();
  return { seed: new TextDecoder().decode(pair.getSeed()), publicKey: pair.getPublicKey() };
}

/** @throws Error for a text that is not a seed */
export function publicKeyOf(seed: string): string {
  return fromSeed(new TextEncoder().encode(seed)).getPublicKey();
}
