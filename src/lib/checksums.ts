/** Lists of checksums in the form of `sha256sum`: one line for each file. */
export type Checksum = { name: string; sha256: string };

/** A list cannot be read. The message names the line. */
export class ChecksumsError extends Error {}

/** Renders a list that `sha256sum -c` reads, sorted by name. */
export function renderChecksums(checksums: readonly Checksum[]): string {
  const sorted = [...checksums].sort((a, b) => (a.name < b.name ? -1 : 1));
  return sorted.map(({ name, sha256 }) => `${sha256}  ${name}\n`).join("");
}

/** Reads one line of a list. Returns undefined where it does not have a hash and a name. Callers check the name. */
export function parseChecksum(line: string): Checksum | undefined {
  const [, sha256, name] = /^([0-9a-f]{64}) [ *](.+)$/.exec(line) ?? [];
  return sha256 === undefined || name === undefined ? undefined : { name, sha256 };
}

/**
 * Reads a list. Names are relative and stay below the folder of the list.
 *
 * @throws ChecksumsError for any other line, a name that leaves the folder, or a name that comes twice
 */
export function parseChecksums(text: string): Checksum[] {
  const lines = text.replace(/\n$/, "").split("\n");
  const seen = new Set<string>();
  return lines.map((line, index) => {
    const checksum = parseChecksum(line);
    if (!checksum) throw new ChecksumsError(`line ${index + 1} is no checksum`);
    const { name, sha256 } = checksum;
    if (name.startsWith("/") || name.split("/").includes("..") || /\p{Cc}/u.test(name)) {
      throw new ChecksumsError(`line ${index + 1} names a file outside its folder`);
    }
    if (seen.has(name)) throw new ChecksumsError(`line ${index + 1} names a file a second time`);
    seen.add(name);
    return { name, sha256 };
  });
}
