import { expect, test } from "bun:test";
import { availableParallelism, freemem } from "node:os";
import { measureMachine } from "./machine.ts";

const files = (contents: Record<string, string>) => (path: string) => contents[path];

test("without control groups the values are those of the system", () => {
  const machine = measureMachine(files({}));
  expect(machine.cores).toBe(availableParallelism());
  expect(Math.abs(machine.availableMemoryBytes - freemem())).toBeLessThan(1e9);
});

test("a service's group and the groups around it limit cores and memory (version 2)", () => {
  const machine = measureMachine(
    files({
      "/proc/self/cgroup": "0::/system.slice/shruti.service\n",
      "/sys/fs/cgroup/system.slice/cpu.max": "100000 100000\n",
      "/sys/fs/cgroup/system.slice/shruti.service/cpu.max": "max 100000\n",
      "/sys/fs/cgroup/system.slice/shruti.service/memory.max": "1000000\n",
      "/sys/fs/cgroup/system.slice/shruti.service/memory.current": "700000\n",
      "/sys/fs/cgroup/system.slice/shruti.service/memory.stat": "anon 5\ninactive_file 200000\n",
    }),
  );
  expect(machine).toEqual({ cores: 1, availableMemoryBytes: 500_000 });
});

test("a container sees its own group as the root", () => {
  const machine = measureMachine(
    files({
      "/proc/self/cgroup": "0::/\n",
      "/sys/fs/cgroup/cpu.max": "50000 100000",
      "/sys/fs/cgroup/memory.max": "2000000",
      "/sys/fs/cgroup/memory.current": "2500000",
    }),
  );
  expect(machine).toEqual({ cores: 1, availableMemoryBytes: 0 });
});

test("version 1 has other file names, and a very large number means no limit", () => {
  const machine = measureMachine(
    files({
      "/proc/self/cgroup": "4:memory:/docker/x\n1:cpu,cpuacct:/docker/x\n",
      "/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes": "3000000",
      "/sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes": "1000000",
      "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
      "/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us": "-1",
      "/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us": "100000",
    }),
  );
  expect(machine).toEqual({ cores: availableParallelism(), availableMemoryBytes: 2_000_000 });
});
