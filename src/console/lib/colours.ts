/**
 * Returns colours of the page's styles (`--accent` and others) as canvases take them. The styles name two values of each;
 * an element that has the colour knows which one it is now.
 */
export function coloursOf<Name extends string>(names: readonly Name[]): Record<Name, string> {
  const probe = document.createElement("span");
  probe.hidden = true;
  // Where the system forces its colours, all would be that of its text.
  probe.style.forcedColorAdjust = "none";
  document.body.append(probe);
  const found = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  });
  probe.remove();
  return Object.fromEntries(found) as Record<Name, string>;
}
