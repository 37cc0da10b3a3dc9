import { existsSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Finds the folder of node_api.h: that of `npm_config_nodedir`, of the node in the path, or of the system.
 *
 * @throws Error when there is none
 */
export function nodeHeaders(): string {
  const node = Bun.which("node");
  const homes = [
    process.env.npm_config_nodedir,
    node === null ? undefined : dirname(dirname(realpathSync(node))),
    "/usr",
    "/usr/local",
  ];
  for (const home of homes) {
    const folder = home === undefined ? undefined : join(home, "include/node");
    if (folder !== undefined && existsSync(join(folder, "node_api.h"))) return folder;
  }
  throw new Error(
    "Node's headers (include/node/node_api.h) were not found: install them or set npm_config_nodedir",
  );
}
