import type { FinalState } from "./transcription.ts";

export const EVENT_TYPES = [
  "transcription.completed",
  "transcription.partial",
  "transcription.failed",
  "transcription.cancelled",
] as const;
export type EventType = (typeof EVENT_TYPES)[number];

/** Returns the type of the event that reports a final state (docs/interface.md section 6). */
export function eventTypeOf(state: FinalState): EventType {
  return `transcription.${state}`;
}

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** Waits between attempts in seconds (docs/decisions.md section 10); after the last the delivery has failed. */
export const RETRY_DELAYS_SECONDS = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400] as const;
