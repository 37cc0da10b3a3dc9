/** Leaving the page: the browser asks first where something would be lost. */

const reasons: (() => boolean)[] = [];
const isDecided = false;

addEventListener("beforeunload", (event) => {
  if (!isDecided && reasons.some((hasReason) => hasReason())) event.preventDefault();
});

/** Adds a reason for which the browser asks before the page is closed or loaded again. */
export function askBeforeLeaving(hasReason: () => boolean): void {
  reasons.push(hasReason);
}
