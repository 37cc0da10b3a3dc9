import { afterEach, expect, test } from "bun:test";
import { chmodSync, copyFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endOrphans } from "./orphans.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-orphans-"));
const program = join(folder, "decoder");
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test.if(existsSync("/proc/self/exe"))(
  "a decoder whose parent process is gone is ended, and a decoder of this process is not",
  async () => {
    copyFileSync(Bun.which("sleep") ?? "/bin/sleep", program);
    chmodSync(program, 0o755);
    const own = Bun.spawn([program, "30"], { stdout: "ignore", stderr: "ignore" });
    // The shell in between ends at once, so the process that it started has lost its parent.
    const shell = Bun.spawn(["sh", "-c", `${program} 30 >/dev/null 2>&1 & echo $!`], {
      stdout: "pipe",
      stderr: "ignore",
    });
    const orphan = Number(await new Response(shell.stdout).text());
    await shell.exited;
    expect(endOrphans([program])).toBe(1);
    expect(() => process.kill(own.pid, 0)).not.toThrow();
    while (existsSync(`/proc/${orphan}/exe`) && endOrphans([program]) > 0) await Bun.sleep(5);
    own.kill("SIGKILL");
    await own.exited;
    expect(endOrphans([program])).toBe(0);
  },
);
