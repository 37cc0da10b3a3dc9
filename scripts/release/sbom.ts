import { createHash } from "node:crypto";
import { Enums, Models, Serialize, Spec } from "@cyclonedx/cyclonedx-library";
import type { Part, PartList } from "../../src/executable/parts.ts";

const TYPES = {
  npm: Enums.ComponentType.Library,
  native: Enums.ComponentType.Library,
  runtime: Enums.ComponentType.Platform,
  model: Enums.ComponentType.MachineLearningModel,
} as const satisfies Record<Part["kind"], Enums.ComponentType>;

/**
 * Names of parts in the American vulnerability database (NVD), by which scanners find their faults. Only parts with a version of
 * their own have one: it does not know commits.
 */
const NVD: Readonly<Record<string, string>> = {
  SQLite: "sqlite:sqlite",
  ICU: "icu-project:international_components_for_unicode",
  llhttp: "llhttp:llhttp",
  FFmpeg: "ffmpeg:ffmpeg",
  zlib: "zlib:zlib",
};

/**
 * Renders a bill of materials in CycloneDX 1.6, JSON. It has no random number and no time of its own: equal parts give
 * equal bytes.
 *
 * @param executable SHA-256 of the executable that the bill describes
 */
export function renderSbom(list: PartList, executable: string): string {
  const bom = new Models.Bom({ version: 1, serialNumber: serialNumber(executable) });
  const product = productComponent(list, executable);
  bom.metadata.component = product;
  if (list.build.committed_at !== null) bom.metadata.timestamp = new Date(list.build.committed_at);
  const components = list.parts.map((part) => ({ part, made: component(part) }));
  for (const { part, made } of components) {
    const owner = components.find((other) => other.part.name === part.within)?.made ?? product;
    bom.components.add(made);
    owner.dependencies.add(made.bomRef);
  }
  const factory = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6);
  return `${new Serialize.JsonSerializer(factory).serialize(bom, { sortLists: true, space: 1 })}\n`;
}

/** A UUID made of a hash (RFC 9562 section 5.8), because the same release has the same number. */
function serialNumber(executable: string): string {
  const hex = createHash("sha256").update(`shruti ${executable}`).digest("hex");
  const variant = ((Number.parseInt(hex.slice(16, 18), 16) & 0x3f) | 0x80).toString(16);
  const groups = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, variant + hex.slice(18, 20)];
  return `urn:uuid:${groups.join("-")}-${hex.slice(20, 32)}`;
}

function productComponent({ build, licence }: PartList, executable: string): Models.Component {
  const product = new Models.Component(Enums.ComponentType.Application, "shruti", {
    bomRef: "shruti",
    version: build.version,
    hashes: new Models.HashDictionary([[Enums.HashAlgorithm["SHA-256"], executable]]),
  });
  product.licenses.add(
    licence === null
      ? new Models.NamedLicense("none chosen yet: all rights reserved")
      : new Models.LicenseExpression(licence.name),
  );
  const facts = { commit: build.commit ?? "", compiler: build.compiler, platform: build.platform };
  for (const [name, value] of Object.entries(facts)) {
    product.properties.add(new Models.Property(`shruti:${name}`, value));
  }
  return product;
}

function component(part: Part): Models.Component {
  const made = new Models.Component(TYPES[part.kind], part.name, {
    bomRef: `${part.kind}:${part.name}@${part.version}`,
    ...(part.version.startsWith("that of") ? {} : { version: part.version }),
    ...(part.purl === undefined ? {} : { purl: part.purl }),
    ...cpeOf(part),
    ...(part.note === undefined ? {} : { description: part.note }),
  });
  made.licenses.add(
    part.licence.startsWith("LicenseRef-")
      ? new Models.NamedLicense(part.note ?? part.licence)
      : new Models.LicenseExpression(part.licence),
  );
  if (part.sha512 !== undefined) made.hashes.set(Enums.HashAlgorithm["SHA-512"], part.sha512);
  const [only, further] = part.files ?? [];
  if (only !== undefined && further === undefined)
    made.hashes.set(Enums.HashAlgorithm["SHA-256"], only.sha256);
  for (const { name, sha256 } of part.files ?? []) {
    made.properties.add(new Models.Property(`shruti:file:${name}`, `sha256:${sha256}`));
  }
  if (/^https?:/.test(part.source)) {
    made.externalReferences.add(
      new Models.ExternalReference(part.source, Enums.ExternalReferenceType.Distribution),
    );
  }
  return made;
}

function cpeOf({ name, version }: Part): { cpe?: string } {
  const known = NVD[name];
  return known === undefined || !/^\d+(\.\d+)*$/.test(version)
    ? {}
    : { cpe: `cpe:2.3:a:${known}:${version}:*:*:*:*:*:*:*` };
}
