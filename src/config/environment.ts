import { CONFIG_SCHEMA } from "./schema.ts";

/** Variables of the program's prefix that are not settings: the path of the config file, and those that tests read. */
const OTHER_VARIABLES = [
  "SHRUTI_CONFIG",
  "SHRUTI_BINARY",
  "SHRUTI_TEST_BACKEND",
  "SHRUTI_TEST_RELEASE",
  "SHRUTI_CRASH_ROUNDS",
  "SHRUTI_SOAK",
];

/**
 * Kubernetes describes each service of a namespace to all its containers by variables. A service with the name `shruti`
 * makes variables of this prefix (kubernetes.io, "Discovering services").
 */
const KUBERNETES_NAME =
  /^SHRUTI_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;
const isKubernetes = (name: string, value: string) =>
  KUBERNETES_NAME.test(name) || (name === "SHRUTI_PORT" && /^(tcp|udp|sctp):\/\//.test(value));

/** Returns the variable that overrides a setting, such as `SHRUTI_SERVER_LISTEN`. */
export function variableOf(section: string, name: string): string {
  return `SHRUTI_${section}_${name}`.toUpperCase();
}

/**
 * Says which variable of the prefix is unknown, and names the nearest known one. A mistyped variable must not silently
 * leave a setting at its default.
 *
 * @returns undefined when all are known
 */
export function unknownVariable(environment: Record<string, string | undefined>): string | undefined {
  const known = Object.entries(CONFIG_SCHEMA).flatMap(([section, settings]) =>
    Object.keys(settings).map((name) => variableOf(section, name)),
  );
  known.push(...OTHER_VARIABLES);
  for (const [name, value] of Object.entries(environment)) {
    if (!/^shruti_/i.test(name) || value === undefined) continue;
    if (known.includes(name) || isKubernetes(name, value)) continue;
    const near = nearest(name.toUpperCase(), known);
    return `${name} is not a setting${near === undefined ? "; `shruti config defaults` lists them" : `; did you mean ${near}?`}`;
  }
  return undefined;
}

/** A name that differs in more than this share of its length is not suggested. */
const MAX_DISTANCE = 0.4;

function nearest(name: string, known: readonly string[]): string | undefined {
  const prefix = "SHRUTI_".length;
  // The variable may lack the section.
  const longer = known.find((other) => other.endsWith(name.slice(prefix - 1)));
  if (longer !== undefined) return longer;
  const best = known
    .map((other) => ({ other, distance: editDistance(name.slice(prefix), other.slice(prefix)) }))
    .reduce((a, b) => (b.distance < a.distance ? b : a));
  return best.distance <= MAX_DISTANCE * (name.length - prefix) ? best.other : undefined;
}

/** Counts the single characters to insert, remove or replace (Levenshtein distance). */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1];
    for (const [column, other] of [...to].entries()) {
      next.push(
        Math.min(
          (row[column] ?? 0) + (letter === other ? 0 : 1),
          (row[column + 1] ?? 0) + 1,
          (next[column] ?? 0) + 1,
        ),
      );
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
