import { basename, extname, resolve, sep } from "node:path";
import type { FolderSettings } from "../../config/folder-fields.ts";
import { ConfigError } from "../../config/problems.ts";
import type { Config } from "../../config/schema.ts";
import type { Metadata } from "../../domain/metadata.ts";
import { isRecordingExtension } from "../../domain/recording-extensions.ts";
import type { TranscriptionRequest } from "../../domain/transcription.ts";
import { named } from "../../lib/named.ts";
import { FORMATS } from "../../pipeline/render.ts";
import { dataDirOf } from "../../services/data-dir.ts";
import type { Store } from "../../store/database.ts";
import { findOrganization } from "../../store/organizations.ts";
import { findProject, listProjects, type ProjectRow } from "../../store/projects.ts";
import { fieldOf, givesMetadata, hasBeside, metadataRuleOf } from "./sidecar.ts";

/** What the settings of a watched folder mean. */

/** Returns what distinguishes a watched folder from others: several can have one path and different patterns. */
export const keyOf = ({ path, pattern }: FolderSettings): string => `${resolve(path)}\0${pattern}`;

/** Endings of names that programs give files which they are still writing. */
const TEMPORARY = /^[.~]|\.(?:tmp|temp|part|partial|filepart|crdownload|download|swp|done)$/i;

const isFormat = (extension: string) => (FORMATS as readonly string[]).includes(extension);

/**
 * Reports whether a watched folder takes files of a name.
 *
 * @param name path of the file below the folder
 */
export function takesName(
  { pattern, sidecar, metadata_csv }: Pick<FolderSettings, "pattern" | "sidecar" | "metadata_csv">,
  name: string,
): boolean {
  const base = basename(name);
  const extension = extname(base).slice(1).toLowerCase();
  // Results may lie beside the recordings, and a pattern such as `*` would take them.
  if (TEMPORARY.test(base) || extension === sidecar || isFormat(extension)) return false;
  if (base === metadata_csv) return false;
  if (pattern === "") return isRecordingExtension(extension);
  return new Bun.Glob(pattern).match(pattern.includes("/") ? name : base);
}

/**
 * Finds the watched folder that takes a file: the first one of its path whose pattern matches.
 *
 * @param folder absolute path of the folder, as a row has it
 */
export function settingsFor(config: Config, folder: string, name: string): FolderSettings | undefined {
  return config.intake.folder.find(
    (settings) => resolve(settings.path) === folder && takesName(settings, name),
  );
}

/** Lists the folders into which the server writes: nothing is taken from them. */
export function outputFolders(config: Config): string[] {
  return config.intake.folder.flatMap(({ path, results, failures, move_to }) =>
    [results, failures, move_to]
      .filter((folder) => folder !== "" && resolve(folder) !== resolve(path))
      .map((folder) => resolve(folder)),
  );
}

/** Reports whether a path is a folder or below it. */
export function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** Checks `[[intake.folder]]`. @throws ConfigError with every mistake */
export function checkFolderSettings(config: Config): void {
  const folders = config.intake.folder;
  const problems = folders.flatMap((settings, at) => [
    ...problemsOf(settings, config),
    ...problemsOfMetadata(settings, config),
    ...folders.slice(0, at).flatMap((other) => problemOfPair(settings, other)),
  ]);
  if (problems.length > 0) throw new ConfigError(problems.map((message) => ({ message })));
}

function problemsOf(settings: FolderSettings, config: Config): string[] {
  const { path, after, move_to, failures, formats, timestamps, diarization } = settings;
  const { min_speakers, max_speakers, numerals, script, task } = settings;
  const folder = resolve(path);
  const data = dataDirOf(config);
  const problems: [isWrong: boolean, sentence: string][] = [
    [folder === "/", "the whole file system cannot be watched"],
    [isWithin(folder, data) || isWithin(data, folder), "it must be outside the data directory"],
    [after === "move" && move_to === "", "after = move needs move_to, the folder for files that are done"],
    [move_to !== "" && resolve(move_to) === folder, "move_to must be another folder"],
    [failures !== "" && resolve(failures) === folder, "failures must be another folder"],
    [formats.length === 0, "formats must name at least one format"],
    [
      timestamps === "none" && (formats.includes("srt") || formats.includes("vtt")),
      "subtitles need timestamps = segment",
    ],
    [
      !diarization && min_speakers + max_speakers > 0,
      "min_speakers and max_speakers need diarization = true",
    ],
    [max_speakers > 0 && min_speakers > max_speakers, "min_speakers must not be above max_speakers"],
    [
      (numerals === "written" || script !== "") && !config.capabilities.written_form,
      "numerals and script need capabilities.written_form = true",
    ],
    [
      task === "translate" && !config.capabilities.translation,
      "task = translate needs capabilities.translation = true",
    ],
    [
      timestamps === "word" && !config.capabilities.word_timestamps,
      "timestamps = word needs capabilities.word_timestamps = true",
    ],
  ];
  return problems.filter(([isWrong]) => isWrong).map(([, sentence]) => `intake.folder ${path}: ${sentence}`);
}

function problemsOfMetadata(settings: FolderSettings, { capabilities }: Config): string[] {
  const { path, metadata_pattern, metadata_expression, sidecar, metadata_fields } = settings;
  const checked = metadataRuleOf(settings);
  const names = metadata_fields.map((field) => fieldOf(field)[0]);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  const folders = [path, settings.after === "move" ? settings.move_to : "", settings.failures];
  const ofResults = resolve(settings.results || path);
  const areMixed = folders.some((folder) => folder !== "" && resolve(folder) === ofResults);
  const problems: [isWrong: boolean, sentence: string][] = [
    [
      givesMetadata(settings) && !capabilities.metadata,
      "metadata_pattern, metadata_expression, sidecar and metadata_csv need capabilities.metadata = true",
    ],
    [
      metadata_pattern !== "" && metadata_expression !== "",
      "metadata_pattern and metadata_expression exclude each other",
    ],
    [metadata_fields.length > 0 && !hasBeside(settings), "metadata_fields needs sidecar or metadata_csv"],
    [twice !== undefined, `metadata_fields has the name ${twice} twice`],
    [
      sidecar === "json" && settings.formats.includes("json") && areMixed,
      "sidecar = json and results as json need results, a folder that has no recordings",
    ],
  ];
  const wrong = problems.filter(([isWrong]) => isWrong).map(([, sentence]) => sentence);
  const all = wrong.length === 0 && "problem" in checked ? [`metadata_${checked.problem}`] : wrong;
  return all.map((sentence) => `intake.folder ${path}: ${sentence}`);
}

function problemOfPair(one: FolderSettings, other: FolderSettings): string[] {
  const [left, right] = [resolve(one.path), resolve(other.path)];
  if (keyOf(one) === keyOf(other)) return [`intake.folder ${one.path}: it is there twice with one pattern`];
  if (left === right || (!isWithin(left, right) && !isWithin(right, left))) return [];
  return [`intake.folder ${one.path}: ${other.path} is watched, too, and one is inside the other`];
}

/**
 * Finds the project of a watched folder, by its ID or its name.
 *
 * @returns the project, or a sentence that says why no file can be taken for it now
 */
export function projectOf(store: Store, { project }: FolderSettings): ProjectRow | { problem: string } {
  const found = project.startsWith("prj_")
    ? [findProject(store, project)].filter((row) => row !== undefined)
    : named(listProjects(store), project).filter(
        ({ organizationId }) => findOrganization(store, organizationId)?.purgeStartedAt === null,
      );
  const [row] = found;
  if (row === undefined) return { problem: `there is no project ${project}` };
  if (found.length > 1)
    return { problem: `${found.length} projects have the name ${project}; write the ID into the config` };
  const organization = findOrganization(store, row.organizationId);
  if (organization?.purgeStartedAt !== null)
    return { problem: `the organization of the project ${project} is purged` };
  if (organization.disabledAt !== null)
    return { problem: `the organization ${organization.name} is disabled` };
  return row;
}

/**
 * Returns the request that is made for a file, or a sentence that says what it lacks.
 *
 * @param metadata of the file
 */
export function requestFor(
  settings: FolderSettings,
  project: Pick<ProjectRow, "defaultLanguage">,
  metadata: Metadata = {},
): TranscriptionRequest | { problem: string } {
  const { task, mode, timestamps, channel_mode, diarization, min_speakers, max_speakers } = settings;
  const language = settings.language || project.defaultLanguage;
  if (!language) return { problem: "it has no language, and its project has none either" };
  const speakers = {
    ...(min_speakers > 0 ? { minSpeakers: min_speakers } : {}),
    ...(max_speakers > 0 ? { maxSpeakers: max_speakers } : {}),
  };
  return {
    ...{ language, mode, timestamps, channelMode: channel_mode },
    ...(task === "translate" ? { task } : {}),
    ...(diarization ? { diarization: speakers } : {}),
    ...(settings.numerals === "written" ? { numerals: settings.numerals } : {}),
    ...(settings.script === "" || settings.script === "native" ? {} : { script: settings.script }),
    ...(Object.keys(metadata).length > 0 ? { metadata } : {}),
  };
}
