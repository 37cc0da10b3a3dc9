import type { Failure } from "../lib/api.ts";
import { failureWords, words } from "../words/words.ts";
import { CopyButton } from "./copy-button.tsx";
import { Icon } from "./icons.tsx";

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
        {failure.message !== "" && failure.code !== "offline" && (
          <p class="muted" lang="en">
            {failure.message}
            {detail === undefined ? "" : ` (${detail})`}
          </p>
        )}
        {requestId !== undefined && (
          <p class="muted">
            {t.requestId} <code>{requestId}</code> <CopyButton text={() => requestId} />
          </p>
        )}
        {onRetry && (
          <button type="button" onClick={onRetry}>
            {t.tryAgain}
          </button>
        )}
      </div>
    </div>
  );
}
