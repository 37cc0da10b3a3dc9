import type { Command } from "commander";
import type { CliContext } from "../frame/context.ts";
import { ballastUse } from "./emergency-commands.ts";

/** The ballast, for the command that runs. */
export type EmergencySpace = {
  /** Says which command runs. One that writes gets some space at once where the disk has hardly any. */
  allow(command: Command): Promise<void>;
  /** Frees a part of the ballast where the command may use it. @returns whether it has freed some */
  free(): Promise<boolean>;
  /** Fills the ballast again after a command that writes, where the disk has space now. */
  refill(): Promise<void>;
};

export function createEmergencySpace(context: CliContext): EmergencySpace {
  let use: ReturnType<typeof ballastUse>;

  async function find() {
    const { config, knowsDataDir, problems } = context.readConfig();
    if (problems.length > 0 && !knowsDataDir) return undefined;
    const [ballast, { dataDirOf }] = await Promise.all([
      import("../../services/ballast.ts"),
      import("../../services/data-dir.ts"),
    ]);
    return { ...ballast, dataDir: dataDirOf(config), wantedBytes: config.storage.ballast_bytes };
  }

  async function free(when: "scarce" | "now"): Promise<boolean> {
    const found = await find();
    return found !== undefined && found.freeBallast(found.dataDir, when) > 0;
  }

  return {
    async allow(command) {
      use = ballastUse(command);
      if (use === "always") await free("scarce");
    },
    free: async () => use !== undefined && (await free("now")),
    async refill() {
      if (use !== "always") return;
      const found = await find();
      // What fails here, the server does later.
      await found?.fillBallast(found.dataDir, found.wantedBytes).catch(() => {});
    },
  };
}
