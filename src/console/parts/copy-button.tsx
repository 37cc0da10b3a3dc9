import { useSignal } from "@preact/signals";
import { words } from "../words/words.ts";
import { announce } from "./announce.tsx";
import { Icon } from "./icons.tsx";

/** Copies a text. Pages that came over plain HTTP have no clipboard of their own and use the older way. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "unseen";
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

type CopyButtonProps = {
  text: () => string | Promise<string>;
  label?: string;
  /** Shown when the pointer rests on the button. */
  hint?: string;
  class?: string;
};

export function CopyButton({ text, label, hint, class: className = "quiet" }: CopyButtonProps) {
  const isCopied = useSignal(false);
  const t = words.value;
  const copy = async () => {
    await copyText(await text());
    isCopied.value = true;
    announce(t.copied);
    setTimeout(() => {
      isCopied.value = false;
    }, 2000);
  };
  return (
    <button type="button" class={className} onClick={() => void copy()} title={hint ?? label ?? t.copy}>
      <Icon name={isCopied.value ? "done" : "copy"} />
      <span class={label === undefined ? "unseen" : ""}>{isCopied.value ? t.copied : (label ?? t.copy)}</span>
    </button>
  );
}
