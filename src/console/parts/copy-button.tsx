import { useSignal } from "@preact/signals";
import { words } from "../words/words.ts";
import { announce } from "./announce.tsx";
import { Icon } from "./icons.tsx";

/**
 * Copies a text. A page that came over plain HTTP has no clipboard of its own. It uses the older way, and so does a page to
 * which the browser refuses the clipboard.
 *
 * @returns whether the clipboard has it now
 */
async function copyText(text: string): Promise<boolean> {
  const isWritten = await navigator.clipboard?.writeText(text).then(
    () => true,
    () => false,
  );
  if (isWritten) return true;
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  // Outside an open window everything is inert, and nothing can be selected there.
  ([...document.querySelectorAll("dialog:modal")].at(-1) ?? document.body).append(field);
  field.select();
  const isCopied = document.activeElement === field && document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return isCopied;
}

type CopyButtonProps = {
  text: () => string | Promise<string>;
  label?: string;
  /** Shown when the pointer rests on the button. */
  hint?: string;
  class?: string;
};

const ICONS = { none: "copy", copied: "done", refused: "failed" } as const;
const LABELS = { copied: "copied", refused: "notCopied" } as const;

export function CopyButton({ text, label, hint, class: className = "quiet" }: CopyButtonProps) {
  const outcome = useSignal<"none" | "copied" | "refused">("none");
  const t = words.value;
  const copy = async () => {
    outcome.value = (await copyText(await text())) ? "copied" : "refused";
    announce(t[LABELS[outcome.value]]);
    setTimeout(() => {
      outcome.value = "none";
    }, 2000);
  };
  return (
    <button type="button" class={className} onClick={() => void copy()} title={hint ?? label ?? t.copy}>
      <Icon name={ICONS[outcome.value]} />
      <span class={label === undefined && outcome.value !== "refused" ? "unseen" : ""}>
        {outcome.value === "none" ? (label ?? t.copy) : t[LABELS[outcome.value]]}
      </span>
    </button>
  );
}
