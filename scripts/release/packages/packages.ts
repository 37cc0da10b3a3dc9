import { join } from "node:path";
import type { PartList } from "../../../src/executable/parts.ts";
import { packageContents } from "./contents.ts";
import { writeDeb } from "./deb.ts";
import { type PackageOptions, packageFacts } from "./package-facts.ts";
import { writeRpm } from "./rpm.ts";

/**
 * Makes packages of a release for one platform. It needs no root, and nothing but this repository. Equal releases give equal
 * bytes.
 *
 * @param bundle folder of the release, as the tarball has it
 * @param time of all files
 * @param output folder where the packages are made, under the names that apt and dnf expect
 */
export async function writePackages(
  bundle: string,
  parts: PartList,
  options: PackageOptions,
  time: Date,
  output: string,
): Promise<void> {
  const facts = packageFacts(parts, options, time);
  const { version, revision, architecture } = facts;
  for (const format of options.formats) {
    const files = await packageContents(bundle, facts, format);
    if (format === "deb") {
      await writeDeb(facts, files, join(output, `shruti_${version}-${revision}_${architecture.deb}.deb`));
    } else {
      await writeRpm(facts, files, join(output, `shruti-${version}-${revision}.${architecture.rpm}.rpm`));
    }
  }
}
