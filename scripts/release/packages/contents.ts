import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { run } from "../../../src/native/build/run.ts";
import { renderUnit } from "../bundle.ts";
import { type Format, NO_LICENCE, type PackageFacts } from "./package-facts.ts";
import { filesOfFolder, type PackageFile } from "./package-file.ts";
import { scriptText } from "./shell-texts.ts";

const ROOT = join(import.meta.dirname, "../../..");
const DOCUMENTS = "/usr/share/doc/shruti";
/** Files of a release that a package has elsewhere, or that belong to a tarball alone. */
const NOT_DOCUMENTS = /^(shruti|install\.sh|shruti\.service|SHA256SUMS.*)$/;

/** The same in every version, so that dpkg never asks which of two configs counts. */
const CONFIG = `# The config of Shruti. An upgrade of the package keeps what you change here. Every setting with its meaning and default is
# in ${DOCUMENTS}/shruti.example.toml. After a change: systemctl reload shruti; \`shruti config check\` finds mistakes.

[storage]
data_dir = "/var/lib/shruti"
`;

/**
 * Returns what a package installs.
 *
 * @param bundle folder of the release for the same platform, as the tarball has it
 */
export async function packageContents(
  bundle: string,
  facts: PackageFacts,
  format: Format,
): Promise<PackageFile[]> {
  const text = (path: string, content: string, mode = 0o644): PackageFile => ({
    path,
    mode,
    content: Buffer.from(content),
  });
  return [
    folder("/etc/shruti"),
    // Tokens may be in it. The group becomes that of the service.
    { ...text("/etc/shruti/shruti.toml", CONFIG, 0o640), isConfig: true },
    { path: "/usr/bin/shruti", mode: 0o755, content: join(bundle, "shruti") },
    folder("/usr/lib/shruti"),
    text("/usr/lib/shruti/install.sh", readFileSync(join(bundle, "install.sh"), "utf8"), 0o755),
    text("/usr/lib/systemd/system/shruti.service", await renderUnit("/usr")),
    ...(await helpFiles(format)),
    folder(DOCUMENTS),
    ...filesOfFolder(bundle, DOCUMENTS, (name) => NOT_DOCUMENTS.test(name)),
    ...(format === "deb" ? debianFiles(facts) : []),
  ];
}

function folder(path: string): PackageFile {
  return { path, mode: 0o755, content: undefined };
}

/** Commands whose output is a file of a package. The source prints it: this machine cannot run every platform's executable. */
const HELP = [["completion", "bash"], ["completion", "zsh"], ["completion", "fish"], ["man"]] as const;
let helpTexts: Promise<string[]> | undefined;

/** Completions and manual page, which are the same for every package. */
async function helpFiles(format: Format): Promise<PackageFile[]> {
  helpTexts ??= Promise.all(
    HELP.map((words) => run([process.execPath, join(ROOT, "src/main.ts"), ...words])),
  );
  const [bash = "", zsh = "", fish = "", manual = ""] = await helpTexts;
  const zshFolder = format === "deb" ? "vendor-completions" : "site-functions";
  const file = (path: string, content: Uint8Array): PackageFile => ({
    path: `/usr/share/${path}`,
    mode: 0o644,
    content,
  });
  return [
    file("bash-completion/completions/shruti", Buffer.from(bash)),
    file(`zsh/${zshFolder}/_shruti`, Buffer.from(zsh)),
    file("fish/vendor_completions.d/shruti.fish", Buffer.from(fish)),
    { ...file("man/man1/shruti.1.gz", packed(manual)), isDocument: true },
  ];
}

/** What Debian's rules ask of a package. */
function debianFiles(facts: PackageFacts): PackageFile[] {
  const { version, revision, maintainer, time, commit } = facts;
  const changes = `shruti (${version}-${revision}) unstable; urgency=medium

  * Version ${version}, commit ${commit}.

 -- ${maintainer}  ${time.toUTCString().replace("GMT", "+0000")}
`;
  const file = (path: string, content: Uint8Array): PackageFile => ({ path, mode: 0o644, content });
  return [
    file(`${DOCUMENTS}/changelog.Debian.gz`, packed(changes)),
    file(`${DOCUMENTS}/copyright`, Buffer.from(copyright(facts))),
    file("/usr/share/lintian/overrides/shruti", Buffer.from(scriptText("deb/lintian-overrides"))),
  ];
}

const copyright = ({ version, licence, time }: PackageFacts) => `Shruti ${version}

Copyright ${time.getUTCFullYear()} the makers of Shruti
Licence of the product: ${licence === NO_LICENCE ? "none has been chosen yet" : `${licence}, in LICENSE.txt beside this file`}.

The executable contains software of others. LICENCES.txt beside this file lists every part with its copyright and the
text of its licence, and sbom.cdx.json is the same list for programs.
`;

function packed(text: string): Uint8Array {
  return gzipSync(text, { level: 9 });
}
