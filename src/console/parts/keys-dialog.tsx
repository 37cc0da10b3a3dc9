import { signal } from "@preact/signals";
import { words } from "../words/words.ts";
import { Dialog } from "./dialog.tsx";

const isOpen = signal(false);

export function openKeys(): void {
  isOpen.value = true;
}

/** Lists the keys of the transcript. */
export function KeysDialog() {
  const t = words.value.keys;
  if (!isOpen.value) return null;
  return (
    <Dialog
      title={t.title}
      class="narrow"
      onClose={() => {
        isOpen.value = false;
      }}
    >
      <dl class="keys">
        {t.list.map(([key, meaning]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
