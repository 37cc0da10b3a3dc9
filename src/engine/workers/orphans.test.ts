import { afterEach, expect, test } from "bun:test";
import { chmodSync, copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { decoderEnvironment, STARTED_BY } from "../audio/decoder-environment.ts";
import { endOrphans } from "./orphans.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-orphans-"));
const program = join(folder, "decoder");
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Starts a program and leaves it without a parent: the shell in between ends at once. */
async function abandoned(environment: Record<string, string>): Promise<number> {
  const shell = Bun.spawn(["sh", "-c", `${program} 30 >/dev/null 2>&1 & echo $!`], {
    ...{ stdout: "pipe", stderr: "ignore", env: environment },
  });
  const pid = Number(await new Response(shell.stdout).text());
  await shell.exited;
  return pid;
}

const isAlive = (pid: number) => existsSync(`/proc/${pid}/exe`);

test.if(existsSync("/proc/self/exe"))(
  "a decoder whose program is gone is ended; a decoder of this process, and what others run with the same program, are not (needs Linux)",
  async () => {
    copyFileSync(Bun.which("sleep") ?? "/bin/sleep", program);
    chmodSync(program, 0o755);
    const [mine, others] = [decoderEnvironment(), {}].map((env) =>
      Bun.spawn([program, "30"], { stdout: "ignore", stderr: "ignore", env }),
    );
    const orphan = await abandoned(decoderEnvironment());
    const stranger = await abandoned({});
    // A decoder of another installation, whose program runs.
    const holder = Bun.spawn(["sh", "-c", `export ${STARTED_BY}=$$; ${program} 30 & echo $!; wait`], {
      ...{ stdout: "pipe", stderr: "ignore" },
    });
    const { value } = await holder.stdout.getReader().read();
    const held = Number(new TextDecoder().decode(value));
    expect(endOrphans(program)).toBe(1);
    while (isAlive(orphan) && endOrphans(program) > 0) await Bun.sleep(5);
    expect([mine?.pid, others?.pid, stranger, held].map((pid) => isAlive(pid ?? 0))).toEqual([
      true,
      true,
      true,
      true,
    ]);
    for (const pid of [mine?.pid, others?.pid, stranger, held]) process.kill(pid ?? 0, "SIGKILL");
    holder.kill("SIGKILL");
    await Promise.all([mine?.exited, others?.exited, holder.exited]);
    // These are no children of this process, so only the system knows when they are gone.
    while (isAlive(stranger) || isAlive(held)) await Bun.sleep(5);
    expect(endOrphans(program)).toBe(0);
  },
);
