import { type Component, options, type VNode } from "preact";

/**
 * Lets go of old drawings, of which Preact 11.2 keeps a chain: an element keeps the children with which it was made
 * (`props.children`), so a component among them that is drawn again by itself is there with its first children. Those that
 * have not changed lead to the next drawing, and so on. In a list of which other rows are shown all the time, that is every
 * row that ever was in the page.
 */

/** Fields of Preact's that have short names in what it publishes. They are the same in all its versions since 10. */
type Drawn = VNode & { __c?: Component | null; __k?: unknown };

/** The latest drawing of each component. */
const latest = new WeakMap<Component, Drawn>();
let replaced: Drawn[] = [];

/** Drawings are compared while the page is drawn, so old ones are let go afterwards. */
function letGo(): void {
  for (const drawn of replaced) drawn.__k = null;
  replaced = [];
}

const before = options.diffed;
options.diffed = (drawn: Drawn) => {
  before?.(drawn);
  const component = drawn.__c;
  if (!component) return;
  const old = latest.get(component);
  latest.set(component, drawn);
  if (old === undefined || old === drawn) return;
  if (replaced.length === 0) setTimeout(letGo);
  replaced.push(old);
};
