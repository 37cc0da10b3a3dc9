import { readdirSync, readFileSync } from "node:fs";
import packageJson from "../../package.json" with { type: "json" };
import type { Metrics } from "./metrics.ts";

/**
 * The program's own numbers, under the names that every Prometheus client library gives them. They are those of the
 * server process; `shruti_child_processes…` are those of its workers and decoders. prom-client's collection is not used: it counts from the first
 * request on, and its numbers of Node.js's heap and event loop are wrong for Bun.
 */
export function addProcessMetrics(metrics: Metrics): void {
  metrics.addLabelledGauge("shruti_build_info", "Always 1; the version is the label.", "version", () => [
    [packageJson.version, 1],
  ]);
  metrics.addCounter("process_cpu_seconds_total", "Processor time of the server process.", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  const startedAtSeconds = Math.round(Date.now() / 1000 - process.uptime());
  metrics.addGauge(
    "process_start_time_seconds",
    "When the server process started, in Unix time.",
    () => startedAtSeconds,
  );
  metrics.addGauge("process_resident_memory_bytes", "Memory of the server process.", () =>
    process.memoryUsage.rss(),
  );
  if (process.platform !== "linux") return;
  metrics.addGauge("shruti_child_processes", "Worker processes, decoders and backups that run.", () =>
    orNaN(() => childProcesses().length),
  );
  metrics.addGauge(
    "shruti_child_processes_resident_memory_bytes",
    "Memory of these processes together.",
    () => orNaN(() => childProcesses().reduce((sum, pid) => sum + residentBytes(pid), 0)),
  );
  metrics.addGauge("process_open_fds", "Open files and connections of the server process.", () =>
    orNaN(() => readdirSync("/proc/self/fd").length),
  );
  metrics.addGauge("process_max_fds", "How many it may have.", () =>
    orNaN(() => Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1])),
  );
}

/** A process that has left root's rights may not look at itself. */
function orNaN(read: () => number): number {
  try {
    return read();
  } catch {
    return Number.NaN;
  }
}

/** Lists the children of this process (proc(5), `/proc/PID/task/TID/children`). */
function childProcesses(): string[] {
  return readdirSync("/proc/self/task").flatMap((thread) => {
    const pids = readFileSync(`/proc/self/task/${thread}/children`, "utf8").trim();
    return pids === "" ? [] : pids.split(" ");
  });
}

function residentBytes(pid: string): number {
  try {
    return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
  } catch {
    // It has just ended.
    return 0;
  }
}
