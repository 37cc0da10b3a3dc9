import type { FinalState } from "./transcription.ts";

/** Types of the events that report the end of a transcription (docs/interface.md section 6). */
export const EVENT_TYPES = [
  "transcription.completed",
  "transcription.partial",
  "transcription.failed",
  "transcription.cancelled",
] as const;
export type TranscriptionEventType = (typeof EVENT_TYPES)[number];

/** Types of the events that endpoints receive only if they were registered for them (docs/decisions/webhooks.md). */
export const SUBSCRIBED_EVENT_TYPES = ["credit.low"] as const;
export type SubscribedEventType = (typeof SUBSCRIBED_EVENT_TYPES)[number];

export const ALL_EVENT_TYPES = [...EVENT_TYPES, ...SUBSCRIBED_EVENT_TYPES] as const;
export type EventType = (typeof ALL_EVENT_TYPES)[number];

/** Returns the type of the event that reports a final state (docs/interface.md section 6). */
export function eventTypeOf(state: FinalState): TranscriptionEventType {
  return `transcription.${state}`;
}

export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** Waits between attempts in seconds (docs/decisions/webhooks.md); after the last the delivery has failed. */
export const RETRY_DELAYS_SECONDS = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400] as const;
