import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";

const LOAD = fileURLToPath(new URL("./load.ts", import.meta.url));

/** Loads in a process of its own, and prints how often the event loop turned meanwhile. */
const PROGRAM = `
  const { loadWritten } = await import(${JSON.stringify(LOAD)});
  let turns = 0;
  const count = () => { turns += 1; setImmediate(count); };
  setImmediate(count);
  const { applyWritten } = await loadWritten();
  console.log(turns, applyWritten("one hundred twenty", { language: "en" }).text);
  process.exit(0);
`;

test("other work runs while the tables are loaded", async () => {
  const { stdout } = Bun.spawn([process.execPath, "-e", PROGRAM], { stdout: "pipe" });
  const [turns, text] = (await new Response(stdout).text()).trim().split(" ");
  expect(text).toBe("120");
  expect(Number(turns)).toBeGreaterThanOrEqual(3);
});
