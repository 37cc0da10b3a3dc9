import { isIP } from "node:net";
import { nearestName } from "../lib/nearest.ts";
import { CONFIG_SCHEMA, SECRET_SETTINGS } from "./schema.ts";

/** The variable that names the config file. It has the prefix of settings, and is not one of them. */
const CONFIG_VARIABLE = "SHRUTI_CONFIG";

type KubernetesVariable = { end: RegExp; value: (text: string) => boolean };

/**
 * Kubernetes describes each service of a namespace to all its containers by variables. A service whose name begins with
 * `shruti`, such as `shruti-fleet`, makes variables of this prefix (kubernetes.io, "Discovering services"). They are known by
 * their ends and by their values, so that a mistyped setting is not taken for one.
 */
const KUBERNETES_VARIABLES: readonly KubernetesVariable[] = [
  { end: /_(?:SERVICE_HOST|PORT_\d+_(?:TCP|UDP|SCTP)_ADDR)$/, value: (text) => isIP(text) !== 0 },
  {
    end: /_(?:SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_\d+_(?:TCP|UDP|SCTP)_PORT)$/,
    value: (text) => /^\d{1,5}$/.test(text),
  },
  { end: /_PORT_\d+_(?:TCP|UDP|SCTP)_PROTO$/, value: (text) => /^(?:tcp|udp|sctp)$/.test(text) },
  {
    end: /_PORT(?:_\d+_(?:TCP|UDP|SCTP))?$/,
    value: (text) => /^(?:tcp|udp|sctp):\/\/[0-9a-fA-F.:[\]]+:\d{1,5}$/.test(text),
  },
];

const isKubernetes = (name: string, text: string) =>
  /^SHRUTI_[A-Z0-9_]+$/.test(name) &&
  KUBERNETES_VARIABLES.some(({ end, value }) => end.test(name) && value(text));

/** Returns the variable that overrides a setting, such as `SHRUTI_SERVER_LISTEN`. */
export function variableOf(section: string, name: string): string {
  return `SHRUTI_${section}_${name}`.toUpperCase();
}

/** Returns the variable that names a file with the text of a secret setting, such as `SHRUTI_METRICS_TOKEN_FILE`. */
export function fileVariableOf(section: string, name: string): string {
  return `${variableOf(section, name)}_FILE`;
}

/** Returns the name of the credential of systemd that holds a secret setting, such as `metrics.token`. */
export function credentialOf(section: string, name: string): string {
  return `${section}.${name}`;
}

/**
 * Says which variables of the prefix are unknown, one sentence for each, and names the nearest known one. A mistyped
 * variable must not silently leave a setting at its default.
 */
export function unknownVariables(environment: Record<string, string | undefined>): string[] {
  const known = Object.entries(CONFIG_SCHEMA).flatMap(([section, settings]) =>
    Object.keys(settings).map((name) => variableOf(section, name)),
  );
  known.push(CONFIG_VARIABLE, ...SECRET_SETTINGS.map(fileVariable));
  return Object.entries(environment)
    .filter(([name, value]) => /^shruti_/i.test(name) && value !== undefined && !isKubernetes(name, value))
    .filter(([name]) => !known.includes(name))
    .map(([name]) => {
      const near = nearest(name.toUpperCase(), known);
      const hint = near === undefined ? "`shruti config defaults` lists them" : `did you mean ${near}?`;
      return `${name} is not a setting; ${hint}`;
    });
}

function fileVariable(setting: string): string {
  const [section = "", name = ""] = setting.split(".");
  return fileVariableOf(section, name);
}

function nearest(name: string, known: readonly string[]): string | undefined {
  const prefix = "SHRUTI_".length;
  // The variable may lack the section.
  const longer = known.find((other) => other.endsWith(name.slice(prefix - 1)));
  if (longer !== undefined) return longer;
  const near = nearestName(
    name.slice(prefix),
    known.map((other) => other.slice(prefix)),
  );
  return near === undefined ? undefined : `SHRUTI_${near}`;
}
