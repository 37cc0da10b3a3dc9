import { route } from "../lib/address.ts";
import type { Failure } from "../lib/api.ts";
import { failureWords, words } from "../words/words.ts";
import { CopyButton } from "./copy-button.tsx";
import { Icon } from "./icons.tsx";
import { SaidInEnglish } from "./said-in-english.tsx";

/** Failures of which the page's own words say all that the server says. */
const KNOWN: ReadonlySet<string> = new Set([
  ...["offline", "unauthorized", "organization_disabled", "not_found", "content_deleted", "rate_limited"],
  ...["insufficient_credits", "spend_limit_reached", "too_many_queued"],
]);

type FailureBoxProps = {
  failure: Failure;
  onRetry?: () => void;
  isSmall?: boolean;
  /** Without an answer of the server the page does it again by itself. */
  isRepeated?: boolean;
};

/** A failure: what happened, what it means, what to do, and the request's ID to hand on. */
export function FailureBox({ failure, onRetry, isSmall = false, isRepeated = false }: FailureBoxProps) {
  const t = words.value;
  const { requestId, detail } = failure.options;
  const { what, meaning, advice } = failureWords(failure.code, detail);
  const isKnown = KNOWN.has(failure.code) || (failure.code === "forbidden" && route.value[0] !== "admin");
  return (
    <div class={isSmall ? "failure small" : "failure"} role="alert">
      <Icon name="failed" />
      <div>
        <p>
          <strong>{what}</strong> {meaning} {advice}{" "}
          {isRepeated && failure.code === "offline" && t.triesAgain}
        </p>
        {failure.message !== "" && !isKnown && (
          <SaidInEnglish>
            {failure.message}
            {detail === undefined || failure.message.includes(detail) ? "" : ` (${detail})`}
          </SaidInEnglish>
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
