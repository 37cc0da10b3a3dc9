import { percent } from "../words/format.ts";

/** A bar for a share of 0 to 1. */
export function Bar({ share, label }: { share: number; label: string }) {
  return (
    <div
      class="bar"
      role="progressbar"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.floor(share * 100)}
      aria-valuetext={percent(share)}
    >
      <div style={{ width: `${Math.min(1, share) * 100}%` }} />
    </div>
  );
}
