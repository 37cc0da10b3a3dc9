import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { words } from "../words/words.ts";
import { Icon } from "./icons.tsx";

/** The menu of the page. Escape closes it, and so does a click elsewhere or a keyboard that goes elsewhere. */
export function Menu({ children }: { children: ComponentChildren }) {
  const place = useRef<HTMLDetailsElement>(null);
  const { settings } = words.value.header;
  useEffect(() => {
    const closeElsewhere = ({ target }: Event) => {
      const menu = place.current;
      if (menu && target instanceof Node && !menu.contains(target)) menu.open = false;
    };
    const onKey = ({ key, target }: KeyboardEvent) => {
      const menu = place.current;
      // Escape closes a question of the menu alone.
      if (key !== "Escape" || !menu?.open || (target instanceof Element && target.closest("dialog"))) return;
      menu.open = false;
      menu.querySelector("summary")?.focus();
    };
    document.addEventListener("pointerdown", closeElsewhere);
    document.addEventListener("focusin", closeElsewhere);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("pointerdown", closeElsewhere);
      document.removeEventListener("focusin", closeElsewhere);
      document.removeEventListener("keydown", onKey);
    };
  }, []);
  return (
    <details class="menu" ref={place}>
      <summary title={settings}>
        <Icon name="settings" />
        <span class="unseen">{settings}</span>
      </summary>
      <div class="menu-body">{children}</div>
    </details>
  );
}
