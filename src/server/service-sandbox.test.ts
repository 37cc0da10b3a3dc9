import { expect, test } from "bun:test";
import { problemOfSandbox } from "./service-sandbox.ts";

const UNIT = {
  LoadState: "loaded",
  ProtectSystem: "strict",
  ProtectHome: "yes",
  StateDirectory: "shruti",
  ReadWritePaths: "",
  BindPaths: "",
};
const HOME = { ProtectHome: "tmpfs", BindPaths: "-/home/v:/home/v:rbind", ReadWritePaths: "-/home/v" };

test.each([
  ["/var/lib/shruti", {}, true],
  ["/var/lib/shruti/more", {}, true],
  ["/var/lib/shruti2", {}, false],
  ["/srv/voice", {}, false],
  ["/srv/voice", { LoadState: "not-found" }, true],
  ["/srv/voice", { ProtectSystem: "full" }, true],
  ["/srv/voice", { ReadWritePaths: "-/srv/other -/srv/voice" }, true],
  ["/srv/voice/data", { ReadWritePaths: "/srv" }, true],
  ["/srv/voice", { ReadWritePaths: "/srv/voice2" }, false],
  ["/home/v/data", { ReadWritePaths: "/home/v" }, false],
  ["/home/v/data", HOME, true],
  ["/home/w", HOME, false],
  ["/home/v", { ProtectHome: "no", ReadWritePaths: "/home/v" }, true],
] as const)("a service with the data directory %s and %j can use it: %p", (dataDir, changes, isUsable) => {
  const unit = Object.entries({ ...UNIT, ...changes })
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");
  const problem = problemOfSandbox(unit, dataDir);
  if (isUsable) expect(problem).toBeUndefined();
  else expect(problem).toContain(`ReadWritePaths=${dataDir}`);
});
