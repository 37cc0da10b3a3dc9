import { expect, test } from "bun:test";
import { fileURLToPath } from "node:url";

const LOAD = fileURLToPath(new URL("./load.ts", import.meta.url));

/** Counts how often the event loop turns while the tables are loaded. */
const PROGRAM = `
  async function run() {
    let turns = 0;
    const count = () => { turns += 1; setImmediate(count); };
    setImmediate(count);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const { loadWritten } = await import(${JSON.stringify(LOAD)});
    turns = 0;
    const { applyWritten } = await loadWritten();
    console.log(turns, applyWritten("one hundred twenty", { language: "en" }).text);
    process.exit(0);
  }
  void run();
`;

test("other work runs while the tables are loaded, also in one bundle as in the executable", async () => {
  const { outputs } = await Bun.build({
    entrypoints: ["/program.ts"],
    files: { "/program.ts": PROGRAM },
    target: "bun",
  });
  const program = Bun.spawn([process.execPath, "run", "-"], {
    stdin: outputs[0] ?? "ignore",
    stdout: "pipe",
  });
  const [turns, text] = (await new Response(program.stdout).text()).trim().split(" ");
  expect(text).toBe("120");
  expect(Number(turns)).toBeGreaterThanOrEqual(3);
});
