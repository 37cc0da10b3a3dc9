import { readFileSync } from "node:fs";
import { join } from "node:path";

const COMMON = "#COMMON#\n";

/** Reads a script that dpkg or rpm runs, with the functions that both kinds share. @param name such as `deb/preinst` */
export function scriptText(name: string): string {
  const read = (file: string) => readFileSync(join(import.meta.dirname, file), "utf8");
  return read(name).replace(COMMON, () => read("unpackaged.sh"));
}
