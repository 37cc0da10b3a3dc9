import { signal } from "@preact/signals";

const message = signal("");

/** Says something to people who use a screen reader, once the present sentence has ended. */
export function announce(text: string): void {
  // The same text again is a change only with another character in it.
  message.value = message.value === text ? `${text}\u00a0` : text;
}

/** The place of announcements. */
export function Announcer() {
  return (
    <div role="status" aria-live="polite" class="unseen">
      {message}
    </div>
  );
}
