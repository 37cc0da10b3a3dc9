import type { ComponentChildren } from "preact";
import { words } from "../words/words.ts";

type SaidInEnglishProps = { children: ComponentChildren; isOpen?: boolean };

/** What the server says for people, which it says in English. A page in another language has a heading that says so. */
export function SaidInEnglish({ children, isOpen = false }: SaidInEnglishProps) {
  const heading = words.value.saidInEnglish;
  if (heading === "") return <p class="muted">{children}</p>;
  return (
    <details class="muted" open={isOpen}>
      <summary>{heading}</summary>
      <p lang="en">{children}</p>
    </details>
  );
}
