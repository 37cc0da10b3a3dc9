import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Question } from "./dialog.tsx";

type AskingButtonProps = {
  /** Undefined: the button acts at once. */
  question: string | undefined;
  yes: string;
  no: string;
  act: () => void;
  /** Whether the question is needed at the moment of the click. */
  isNeeded?: () => boolean;
  class?: string;
  children: ComponentChildren;
};

/** A button that asks before it acts. */
export function AskingButton({ question, yes, no, act, isNeeded, class: name, children }: AskingButtonProps) {
  const isAsking = useSignal(false);
  const start = () => {
    if (question === undefined || isNeeded?.() === false) act();
    else isAsking.value = true;
  };
  return (
    <>
      <button type="button" class={name} onClick={start}>
        {children}
      </button>
      {isAsking.value && question !== undefined && (
        <Question
          {...{ yes, no }}
          text={question}
          onYes={() => {
            isAsking.value = false;
            act();
          }}
          onNo={() => {
            isAsking.value = false;
          }}
        />
      )}
    </>
  );
}
