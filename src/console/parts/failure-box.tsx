import type { Failure } from "../lib/api.ts";
import { failureWords, words } from "../words/words.ts";
import { CopyButton } from "./copy-button.tsx";
import { Icon } from "./icons.tsx";

/** Failures of which the page's own words say all that the server says. */
const KNOWN: ReadonlySet<string> = new Set([
  "offline",
  "unauthorized",
  "not_found",
  "content_deleted",
  "rate_limited",
]);

type FailureBoxProps = { failure: Failure; onRetry?: () => void; isSmall?: boolean };

/** A failure: what happened, what it means, what to do, and the request's ID to hand on. */
export function FailureBox({ failure, onRetry, isSmall = false }: FailureBoxProps) {
  const t = words.value;
  const { what, meaning, advice } = failureWords(failure.code);
  const { requestId, detail } = failure.options;
  return (
    <div class={isSmall ? "failure small" : "failure"} role="alert">
      <Icon name="failed" />
      <div>
        <p>
          <strong>{what}</strong> {meaning} {advice}
        </p>
        {failure.message !== "" && !KNOWN.has(failure.code) && (
          <p class="muted" lang="en">
            {failure.message}
            {detail === undefined || failure.message.includes(detail) ? "" : ` (${detail})`}
          </p>
        )}
        {(onRetry || requestId !== undefined) && (
          <p class="row">
            {onRetry && (
              <button type="button" onClick={onRetry}>
                {t.tryAgain}
              </button>
            )}
            {requestId !== undefined && (
              <CopyButton
                text={() => requestId}
                label={t.copyRequestId}
                hint={requestId}
                class="quiet request-id"
              />
            )}
          </p>
        )}
      </div>
    </div>
  );
}
