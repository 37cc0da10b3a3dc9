import { SIDECAR_KINDS } from "../domain/file-metadata.ts";
import { CHANNEL_MODES, MAX_SPEAKERS, MODES, NUMERALS, TASKS } from "../domain/transcription.ts";
import { boolean, choice, integer, list, type TableOf, text } from "./setting.ts";

/** How the server knows that a file of a watched folder is complete. */
export const COMPLETE_CHOICES = ["rest", "marker", "rename"] as const;
/** What happens to a file of a watched folder once its results are written. */
export const AFTER_CHOICES = ["keep", "move", "delete"] as const;
/** Times that a transcription of a watched folder can have. */
const FOLDER_TIMESTAMPS = ["none", "segment", "word"] as const;

/** The fields of `[[intake.folder]]` (docs/manual/intake.md). */
export const FOLDER_FIELDS = {
  path: text("", "The folder, an absolute path, or one that belongs to the folder of the config file.", {
    isPath: true,
    pattern: /\S/,
    example: "/srv/calls",
  }),
  project: text("", "Project that owns the recordings and pays: its ID, or its name where only one has it.", {
    pattern: /\S/,
    example: "main",
  }),
  pattern: text(
    "",
    "Names of the files to take, such as *.wav or *.{wav,mp3}; with a slash the path below the folder; empty: all recordings by their extensions.",
  ),
  subfolders: boolean(true, "Also take files of folders below it. Hidden ones and links are left out."),
  complete: choice(
    "rest",
    COMPLETE_CHOICES,
    "When a file is complete; rest: size and time of change stay the same for rest_seconds; marker: a file NAME.done is beside it; rename: at once, because the writer uses a temporary name until then.",
  ),
  rest_seconds: integer(10, 1, 86_400, "How long a file must stay the same, for complete = rest."),
  poll_seconds: integer(10, 1, 3600, "Time between two looks at the folder."),
  at_once: integer(4, 1, 1000, "Files that are received, wait for their turn or are transcribed at once."),
  after: choice(
    "keep",
    AFTER_CHOICES,
    "What happens to a file once its results are written; move: into move_to; delete: it is removed, and the audit log records that.",
  ),
  move_to: text("", "Folder for after = move.", { isPath: true }),
  results: text("", "Folder of the results; empty: beside each recording.", { isPath: true }),
  formats: list("Files that are written for each recording: json, srt, vtt or txt.", {
    default: ["json"],
    pattern: /^(json|srt|vtt|txt)$/,
    example: "srt",
  }),
  failures: text(
    "",
    "Folder for what cannot be transcribed, each with its reason as a text; with after = keep the recording stays where it is. Empty: only `shruti folder status` shows the reason.",
    { isPath: true },
  ),
  language: text("", "Language code; empty: the language of the project.", {
    pattern: /^([a-z]{2,3})?$/,
    example: "hi",
  }),
  model: text("", "Model; empty: the one that requests without a model get."),
  task: choice(
    "transcribe",
    TASKS,
    "What becomes of speech; translate: text in English, which needs capabilities.translation.",
  ),
  mode: choice("native", MODES, "Mode of the transcript."),
  timestamps: choice("segment", FOLDER_TIMESTAMPS, "Times in the results."),
  channel_mode: choice("mix", CHANNEL_MODES, "What happens to several channels."),
  diarization: boolean(false, "Distinguish speakers."),
  min_speakers: integer(0, 0, MAX_SPEAKERS, "Fewest speakers; 0: not known."),
  max_speakers: integer(0, 0, MAX_SPEAKERS, "Most speakers; 0: not known."),
  numerals: choice("spoken", NUMERALS, "How numbers are written; written needs capabilities.written_form."),
  script: text("", "Script of the text, such as latin; empty: that of the language."),
  metadata_pattern: text(
    "",
    "Metadata in the names of files, such as {date}_{agent}_{caller}.wav; needs capabilities.metadata.",
  ),
  metadata_expression: text(
    "",
    "The same as a regular expression of RE2 with named groups; not beside metadata_pattern.",
  ),
  sidecar: choice(
    "none",
    ["none", ...SIDECAR_KINDS],
    "Metadata in a small file beside each recording: a.wav.json or a.json beside a.wav; needs capabilities.metadata.",
  ),
  metadata_csv: text(
    "",
    "Name of one CSV for all recordings of a folder, with a line for each and a column file that names it; needs capabilities.metadata.",
    { pattern: /^([^/.][^/]*)?$/, example: "calls.csv" },
  ),
  sidecar_required: boolean(
    true,
    "A recording waits for its sidecar, or its line in metadata_csv; false: it is taken without.",
  ),
  metadata_fields: list(
    "Metadata that are taken from the sidecar or metadata_csv, each as NAME=KEY; empty: all, by their own names.",
    {
      pattern: /^[A-Za-z0-9_-]{1,40}=./,
      example: "agent=AgentId",
    },
  ),
  webhook_endpoint: text(
    "",
    "ID of a webhook endpoint of the project that learns of each ending; empty: none.",
    {
      pattern: /^(whe_[0-9A-Z]{26})?$/,
    },
  ),
} as const;

/** One watched folder, as the config describes it. Relative paths are resolved. */
export type FolderSettings = TableOf<typeof FOLDER_FIELDS>;
