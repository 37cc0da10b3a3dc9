import type { Config } from "../../config/schema.ts";
import { isLocalOnly } from "../../server/listen-address.ts";

export const OPEN_METRICS =
  "everybody who reaches this server can read GET /metrics; set metrics.token, or refuse the path in the proxy";

/** Reports whether others than this machine's users may read the metrics. */
export function hasOpenMetrics({ metrics, server }: Config): boolean {
  if (!metrics.enabled || metrics.token !== "") return false;
  // A proxy on this machine makes all clients local ones.
  return !isLocalOnly(server.listen) || server.base_url !== "" || server.trusted_proxies.length > 0;
}
