/** Finds assertions on promises that a test does not await. Such assertions cannot fail the test. */

/**
 * Finds `expect(…).rejects` and `expect(…).resolves` that are separate statements, without `await` or `return`.
 *
 * @param source TypeScript as the formatter writes it
 * @returns line numbers, from 1
 */
export function floatingExpectations(source: string): number[] {
  const found: number[] = [];
  for (const { index } of source.matchAll(/\)\s*\.(?:not\s*\.\s*)?(?:rejects|resolves)\b/g)) {
    const open = openingOf(source, index);
    const before = source
      .slice(0, open)
      .replace(/expect$/, "")
      .trimEnd();
    if (before === "" || /[;{})]$/.test(before)) found.push(source.slice(0, index).split("\n").length);
  }
  return found;
}

/** Finds the opening parenthesis for the closing one at `close`. Parentheses in strings must come in pairs. */
function openingOf(source: string, close: number): number {
  let depth = 0;
  for (let at = close; at >= 0; at -= 1) {
    if (source[at] === ")") depth += 1;
    if (source[at] === "(") depth -= 1;
    if (depth === 0) return at;
  }
  return 0;
}
