import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { words } from "../words/words.ts";
import { Icon } from "./icons.tsx";

type DialogProps = { title: string; onClose: () => void; children: ComponentChildren; class?: string };

/** A window over the page. The browser keeps the focus inside, and Escape closes it. */
export function Dialog({ title, onClose, children, class: className = "" }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={ref} class={className} aria-label={title} onClose={onClose}>
      <header class="dialog-head">
        <h2>{title}</h2>
        <button type="button" class="quiet" onClick={onClose}>
          <Icon name="close" />
          <span class="unseen">{words.value.close}</span>
        </button>
      </header>
      {children}
    </dialog>
  );
}

type QuestionProps = { text: string; yes: string; no: string; onYes: () => void; onNo: () => void };

/** Asks before something that cannot be undone. */
export function Question({ text, yes, no, onYes, onNo }: QuestionProps) {
  return (
    <Dialog title={yes} onClose={onNo} class="narrow">
      <p>{text}</p>
      <footer class="dialog-foot">
        <button type="button" onClick={onNo}>
          {no}
        </button>
        <button type="button" class="danger" onClick={onYes}>
          {yes}
        </button>
      </footer>
    </Dialog>
  );
}
