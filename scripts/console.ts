import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join, relative, resolve } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { consoleFonts, fontRules } from "./console-fonts.ts";

const ROOT = join(import.meta.dirname, "..");
const SOURCE = join(ROOT, "src/console");
const FOLDER = join(ROOT, "build/console");
const LIST = "files.json";
const STAMP = "stamp";

/** Files that decide what the console's files are, besides its own sources and those that it shares with the program. */
const INPUTS = ["bun.lock", "scripts/console.ts", "scripts/console-fonts.ts"];

/** A file of the console as it is served. */
type Served = {
  /** `page.html`, or the hashed name below `console/assets/`. */
  name: string;
  type: string;
  /** Files in the folder, by content coding. Fonts are compressed already and have `identity` alone. */
  codings: Partial<Record<"br" | "gzip" | "identity", string>>;
};

/** What a build of the console wrote. */
type ConsoleList = {
  files: Served[];
  /** Folders of the npm packages of which something is inside, from the repository's folder. */
  packages: string[];
  /** Sources of the program that the page has, too, from the repository's folder. */
  shared: string[];
};

const TYPES: Record<string, string> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  woff2: "font/woff2",
};

/**
 * Bundles the console and writes its files, compressed, to `build/console`, with a module (`assets.ts`) that imports each
 * file, so that the executable embeds them. If nothing has changed, it only compares a stamp.
 *
 * @returns the list of the files and of the packages inside
 */
export async function buildConsole(): Promise<ConsoleList> {
  if (existsSync(join(FOLDER, LIST))) {
    const before = readList();
    if (readFileSync(join(FOLDER, STAMP), "utf8") === sourcesHash(before.shared)) return before;
  }
  mkdirSync(join(ROOT, "build"), { recursive: true });
  const unfinished = mkdtempSync(join(ROOT, "build/console-"));
  try {
    const built = await bundle();
    writeFileSync(join(unfinished, LIST), `${JSON.stringify(writeFiles(unfinished, built), null, 1)}\n`);
    writeFileSync(join(unfinished, "assets.ts"), assetsModule(readList(unfinished)));
    writeFileSync(join(unfinished, STAMP), sourcesHash(built.shared));
    replaceFolder(unfinished);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return readList();
}

/** Puts a finished folder in the place of the old one. Another process may do the same at the same time. */
function replaceFolder(unfinished: string): void {
  for (let attempt = 1; ; attempt++) {
    rmSync(FOLDER, { recursive: true, force: true });
    try {
      renameSync(unfinished, FOLDER);
      return;
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

const readList = (folder = FOLDER) => JSON.parse(readFileSync(join(folder, LIST), "utf8")) as ConsoleList;

/** @param shared none are known in a folder that an earlier version of this script wrote */
function sourcesHash(shared: readonly string[] = []): string {
  const hash = createHash("sha256");
  const own = readdirSync(SOURCE, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.includes(".test."))
    .map(({ parentPath, name }) => join(parentPath, name))
    .sort();
  for (const path of [...[...INPUTS, ...shared].map((name) => join(ROOT, name)), ...own]) {
    if (!existsSync(path)) continue;
    hash.update(`${relative(ROOT, path)}\0`).update(readFileSync(path));
  }
  return hash.digest("hex");
}

/** Hashed files by name, and what the bundler took. */
type Built = { files: Map<string, Uint8Array>; entry: string; styles: string } & Omit<ConsoleList, "files">;

async function bundle(): Promise<Built> {
  const built = await Bun.build({
    entrypoints: [join(SOURCE, "main.tsx")],
    root: SOURCE,
    target: "browser",
    format: "esm",
    splitting: true,
    minify: true,
    metafile: true,
    publicPath: "",
    define: { "process.env.NODE_ENV": '"production"' },
    naming: { entry: "[name]-[hash].[ext]", chunk: "[name]-[hash].[ext]", asset: "[name]-[hash].[ext]" },
  });
  const files = new Map<string, Uint8Array>();
  for (const output of built.outputs)
    files.set(output.path.replace(/^\.\//, ""), new Uint8Array(await output.arrayBuffer()));
  const entry = nameLike(files, /^main-\w+\.js$/);
  const plain = nameLike(files, /^main-\w+\.css$/);
  const fonts = consoleFonts();
  for (const { name, path } of fonts) files.set(name, readFileSync(path));
  const css = `${Buffer.from(files.get(plain) ?? "")}${fontRules(fonts)}`;
  files.delete(plain);
  const styles = `main-${hashOf(css)}.css`;
  files.set(styles, Buffer.from(css));
  const inputs = Object.keys(built.metafile?.inputs ?? {});
  const packages = [
    ...inputs.flatMap(packageOf),
    ...fonts.flatMap(({ path }) => packageOf(relative(ROOT, path))),
  ];
  const taken = inputs.map((path) => relative(ROOT, resolve(path)));
  const shared = taken.filter((path) => /^src\/(?!console\/)/.test(path)).sort();
  return { files, entry, styles, packages: [...new Set(packages)].sort(), shared };
}

const hashOf = (text: string | Uint8Array) => createHash("sha256").update(text).digest("hex").slice(0, 8);

function nameLike(files: Map<string, unknown>, form: RegExp): string {
  const found = [...files.keys()].find((name) => form.test(name));
  if (found === undefined) throw new Error(`the bundler wrote no ${form}: ${[...files.keys()].join(", ")}`);
  return found;
}

function packageOf(path: string): string[] {
  const found = /node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
  return found === undefined ? [] : [found];
}

function writeFiles(folder: string, { files, entry, styles, packages, shared }: Built): ConsoleList {
  const icon = readFileSync(join(SOURCE, "icon.svg"));
  const iconName = `icon-${hashOf(icon)}.svg`;
  const page = readFileSync(join(SOURCE, "page.html"), "utf8")
    .replace("main.tsx", entry)
    .replace("styles.css", styles)
    .replace("icon.svg", iconName);
  const all = new Map<string, Uint8Array>([
    ["page.html", Buffer.from(page)],
    [iconName, icon],
    ...[...files].sort(([a], [b]) => (a < b ? -1 : 1)),
  ]);
  const served = [...all].map(([name, bytes]) => writeOne(folder, name, bytes));
  return { files: served, packages, shared };
}

/** Writes one file in its content codings. Chrome asks for brotli over TLS alone; gzip is for everybody else. */
function writeOne(folder: string, name: string, bytes: Uint8Array): Served {
  const type = TYPES[name.split(".").at(-1) ?? ""];
  if (type === undefined) throw new Error(`${name}: no type of content is known for it`);
  const write = (suffix: string, content: Uint8Array) => {
    writeFileSync(join(folder, name + suffix), content);
    return name + suffix;
  };
  if (name.endsWith(".woff2")) return { name, type, codings: { identity: write("", bytes) } };
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } };
  return {
    name,
    type,
    codings: {
      br: write(".br", brotliCompressSync(bytes, quality)),
      gzip: write(".gz", gzipSync(bytes, { level: 9 })),
    },
  };
}

function assetsModule({ files }: ConsoleList): string {
  const paths = [...new Set(files.flatMap(({ codings }) => Object.values(codings)))];
  const fileOf = new Map(paths.map((path, index) => [path, `file${index}`]));
  const listed = files.map(({ name, type, codings }) => {
    const entries = Object.entries(codings).map(([coding, path]) => `${coding}: ${fileOf.get(path)}`);
    return `  { name: "${name}", type: "${type}", codings: { ${entries.join(", ")} } },`;
  });
  return [
    "// @ts-nocheck",
    "// Written by scripts/console.ts. Imports of type file have no declarations, hence the line above.",
    ...paths.map((path) => `import ${fileOf.get(path)} from "./${path}" with { type: "file" };`),
    "",
    "export const CONSOLE_FILES = [",
    ...listed,
    "];",
    "",
  ].join("\n");
}

if (import.meta.main) {
  await buildConsole();
  console.log(FOLDER);
}
