/** Leaving the page: the browser asks first where something would be lost. */

const reasons: (() => boolean)[] = [];
let isDecided = false;

addEventListener("beforeunload", (event) => {
  if (!isDecided && reasons.some((hasReason) => hasReason())) event.preventDefault();
});

/** Loads the page again, without a view, so that nothing of it is left in memory. The browser does not ask. */
export function loadAgain(): void {
  isDecided = true;
  history.replaceState(null, "", location.pathname + location.search);
  location.reload();
}

/** Adds a reason for which the browser asks before the page is closed or loaded again. */
export function askBeforeLeaving(hasReason: () => boolean): void {
  reasons.push(hasReason);
}
