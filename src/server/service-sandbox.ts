/** What `systemctl show` says about the unit of the service. */
const PROPERTIES = [
  "LoadState",
  "ProtectSystem",
  "ProtectHome",
  "StateDirectory",
  "ReadWritePaths",
  "BindPaths",
];
/** Homes, which `ProtectHome` hides. */
const HOMES = /^\/(home|root|run\/user)(\/|$)/;
const TIMEOUT_MS = 5_000;

/** Returns the properties of the unit `shruti.service`, one a line; undefined where systemd does not run. */
export function readUnit(): string | undefined {
  if (Bun.which("systemctl") === null) return undefined;
  const { exitCode, stdout } = Bun.spawnSync(
    ["systemctl", "show", "shruti.service", `--property=${PROPERTIES.join(",")}`],
    { stdin: "ignore", stderr: "ignore", timeout: TIMEOUT_MS },
  );
  return exitCode === 0 ? stdout.toString() : undefined;
}

/**
 * Says why the sandbox of a unit keeps the service from its data directory, which other programs of the same user can
 * write.
 *
 * @param unit as `readUnit` returns it
 * @returns undefined when nothing is in the way
 */
export function problemOfSandbox(unit: string, dataDir: string): string | undefined {
  const value = (name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";
  if (value("LoadState") !== "loaded") return undefined;
  const covers = (path: string) => dataDir === path || dataDir.startsWith(`${path}/`);
  // A leading minus is for paths that may be missing, a plus for paths below another root.
  const paths = (name: string) =>
    value(name)
      .split(" ")
      .filter((path) => path !== "")
      .map((path) => path.replace(/^[-+]+/, "").split(":")[0] ?? "");
  const own = value("StateDirectory")
    .split(" ")
    .filter((name) => name !== "")
    .map((name) => `/var/lib/${name}`);
  const isWritable = value("ProtectSystem") !== "strict" || [...own, ...paths("ReadWritePaths")].some(covers);
  const isShown =
    !HOMES.test(dataDir) ||
    value("ProtectHome") === "no" ||
    [...paths("BindPaths"), ...own].some(covers) ||
    value("ProtectHome") === "read-only";
  return isWritable && isShown ? undefined : sandboxAdvice(dataDir);
}

/** Says how to open the sandbox of the unit that install.sh writes. */
export function sandboxAdvice(dataDir: string): string {
  const settings = HOMES.test(dataDir)
    ? `ProtectHome=tmpfs, BindPaths=${dataDir} and ReadWritePaths=${dataDir}`
    : `ReadWritePaths=${dataDir}`;
  return `the sandbox of the systemd unit hides or protects ${dataDir}: run install.sh again, or put ${settings} under [Service] with \`systemctl edit shruti\``;
}
