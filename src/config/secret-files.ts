import { isAbsolute, join } from "node:path";
import { RegularFileError, readRegularBytes } from "../lib/regular-file.ts";
import { credentialOf, fileVariableOf, variableOf } from "./environment.ts";
import type { ConfigProblem } from "./problems.ts";
import { SECRET_SETTINGS } from "./schema.ts";

/** Largest file of a secret that is read. Secrets are shorter than a header of HTTP, which is the place of most. */
export const MAX_SECRET_BYTES = 16 * 1024;

type Environment = Record<string, string | undefined>;

/** A secret setting whose text comes from a file. */
export type FiledSecret = {
  section: string;
  name: string;
  text: string;
  /** Names variable or credential, and the file, as the beginning of a sentence. */
  origin: string;
};

type Origin = Pick<FiledSecret, "section" | "name" | "origin"> & {
  path: string;
  /** A missing file means that there is no such credential. */
  mayLack: boolean;
};

/**
 * Reads the secret settings that come from files: those that a variable `SHRUTI_<SECTION>_<NAME>_FILE` names, as with
 * containers, and the credentials of systemd in `$CREDENTIALS_DIRECTORY`, which have the names of the settings
 * (systemd.exec(5)). A line end after the text does not belong to it. A variable counts before a credential.
 *
 * @returns the texts; and a sentence for each file that is missing, unreadable, empty, too large or not text, and for each
 *   setting that is given twice. No sentence has the content of a file
 */
export function readSecretFiles(environment: Environment): {
  found: FiledSecret[];
  problems: ConfigProblem[];
} {
  const found: FiledSecret[] = [];
  const problems: ConfigProblem[] = [];
  for (const setting of SECRET_SETTINGS) {
    const origin = originOf(setting, environment);
    if (origin === undefined) continue;
    if ("message" in origin) problems.push(origin);
    else {
      const read = readSecret(origin);
      if (read === undefined) continue;
      if ("message" in read) problems.push(read);
      else found.push(read);
    }
  }
  return { found, problems };
}

/** Finds the file of a secret setting; undefined: none is named. */
function originOf(setting: string, environment: Environment): Origin | ConfigProblem | undefined {
  const [section = "", name = ""] = setting.split(".");
  const [variable, fileVariable] = [variableOf(section, name), fileVariableOf(section, name)];
  const path = environment[fileVariable];
  const folder = environment.CREDENTIALS_DIRECTORY;
  if (path !== undefined) {
    if (environment[variable] !== undefined)
      return problem(`${variable} and ${fileVariable} are both set; set one of them`);
    // Its value is not shown: it may be the secret itself.
    if (!isAbsolute(path)) return problem(`${fileVariable} must be the absolute path of a file`);
    return { section, name, path, mayLack: false, origin: `${fileVariable} names ${path}, and that file` };
  }
  if (!folder || environment[variable] !== undefined) return undefined;
  const credential = credentialOf(section, name);
  const file = join(folder, credential);
  return { section, name, path: file, mayLack: true, origin: `the credential ${credential} (${file})` };
}

/** Reads one file; undefined: it is a credential that is not there. */
function readSecret({
  section,
  name,
  path,
  origin,
  mayLack,
}: Origin): FiledSecret | ConfigProblem | undefined {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(readRegularBytes(path, MAX_SECRET_BYTES));
  } catch (error) {
    if (error instanceof TypeError) return problem(`${origin} is not text in UTF-8`);
    if (error instanceof RegularFileError) return problem(`${origin} cannot be used: ${error.code}`);
    const { code = "unknown" } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && mayLack) return undefined;
    if (code === "ENOENT") return problem(`${origin} does not exist`);
    if (code !== "EACCES" && code !== "EPERM") return problem(`${origin} cannot be read (${code})`);
    return { ...problem(`${origin} may not be read by this user (${code})`), isDenied: true };
  }
  const secret = text.replace(/\r?\n$/, "");
  return secret === "" ? problem(`${origin} is empty`) : { section, name, text: secret, origin };
}

const problem = (message: string): ConfigProblem => ({ where: "environment", message });
