/** A reason in the name of a test that was skipped: `the console (needs Chromium) > …`. */
const REASON = /\((needs? (?:[^()]|\([^()]*\))+)\)/g;

/**
 * Lists the tests that a run of `bun test` has left out, by reason. The reason is in the name of the test or of a group
 * around it, because Bun's output has nothing else of a skipped test.
 *
 * @param output what `bun test` printed
 * @returns lines; empty when nothing was left out
 */
export function leftOut(output: string): string[] {
  // At its end, Bun repeats the names of all of them.
  const [during = ""] = output.split(/^\d+ tests? skipped:$/m);
  const names = [...during.matchAll(/^\(skip\) (.*)$/gm)].map(([, name = ""]) => name);
  if (names.length === 0) return [];
  const groups = Object.groupBy(names, (name) => [...name.matchAll(REASON)].at(-1)?.[1] ?? "");
  const lines = Object.entries(groups).flatMap(([reason, tests = []]) =>
    reason === ""
      ? tests.map((name) => `     1  for a reason that its name does not tell: ${name}`)
      : [`${String(tests.length).padStart(6)}  ${reason}`],
  );
  return [`${names.length} tests were left out:`, ...lines.sort((a, b) => b.localeCompare(a))];
}
