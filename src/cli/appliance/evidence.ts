import type { Command } from "commander";
import packageJson from "../../../package.json" with { type: "json" };
import { AppError } from "../../domain/errors.ts";
import { recordedDecoding } from "../../domain/model.ts";
import { asWriterOf } from "../../lib/rights.ts";
import { plainMessage } from "../../lib/system-error.ts";
import type { Evidence } from "../../services/signed/evidence.ts";
import { readingOfDocument } from "../../services/signed/reading-document.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderFields } from "../frame/output.ts";
import { readSigned } from "../frame/signed-file.ts";
import { type LocalPlan, type LocalTranscriber, withLocalTranscriber } from "../transcribe/local-work.ts";

type VerifyOptions = { key?: string; audio?: string; json?: true };
/** How a transcript compares with that of a second recognition. */
type Repeated = { words: boolean; whole: boolean; device: string; cpuVariant: string | null };

/** `shruti transcriptions evidence` */
export function registerMakeEvidence(transcriptions: Command, context: CliContext): void {
  transcriptions
    .command("evidence")
    .description(
      "signed evidence of what it was made from and with: hashes and settings, no text of the transcript",
    )
    .argument("<id>")
    .option("--output <file>", "write a new file instead of standard output")
    .action(async (id: string, { output }: { output?: string }) => {
      const { database, dataDir } = await context.openServices();
      const [{ makeEvidence }, { openApplianceKey }, { signDocument }] = await Promise.all([
        import("./evidence-document.ts"),
        import("../../services/signed/appliance-key.ts"),
        import("../../services/signed/signed-documents.ts"),
      ]);
      const evidence = makeEvidence(database.store, id, context.clock.now());
      const signed = signDocument(evidence, openApplianceKey(dataDir));
      if (output === undefined) context.printJson(signed);
      else await writeNew(output, `${JSON.stringify(signed, null, 2)}\n`);
    });
}

/** @throws CommandError `conflict` for a file that exists: evidence is not replaced by mistake */
async function writeNew(path: string, text: string): Promise<void> {
  const { writeNewFileNow } = await import("../../lib/durable-files.ts");
  try {
    asWriterOf(path, () => writeNewFileNow(path, text, 0o644));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    throw new CommandError("conflict", `${path} exists already`);
  }
}

/** `shruti evidence …` */
export function registerEvidence(program: Command, context: CliContext): void {
  program
    .command("evidence")
    .description("signed evidence of transcriptions (`transcriptions evidence` makes it)")
    .command("verify")
    .description("check evidence on any machine; with --audio, recognize again and compare the words")
    .argument("<file>")
    .option(
      "--key <file>",
      "public key of the appliance; without it, only changes since the signature are found",
    )
    .option("--audio <file>", "the recording: recognize it again with the same model and settings")
    .option("--json", "print JSON")
    .action(async (file: string, options: VerifyOptions) => {
      const [{ document, fingerprint }, { isEvidence }] = await Promise.all([
        readSigned(file, options.key),
        import("../../services/signed/evidence.ts"),
      ]);
      if (!isEvidence(document))
        throw new CommandError("failed", `${file} is not evidence that this version can read`);
      const { audio } = options;
      const repeated = audio === undefined ? undefined : await repeat(context, document, audio);
      if (options.json) {
        const ok = repeated?.words ?? true;
        const again = repeated && {
          ...{ same_words: repeated.words, same_result: repeated.whole },
          ...{ device: repeated.device, cpu_variant: repeated.cpuVariant },
        };
        const trusted = options.key !== undefined;
        context.printJson({ ok, fingerprint, trusted, repeated: again ?? null, document });
      } else print(context, document, fingerprint, options, repeated);
      if (repeated?.words === false)
        throw new CommandError("failed", "the words are not the same as those of the evidence");
    });
}

function print(
  context: CliContext,
  evidence: Evidence,
  fingerprint: string,
  { key }: VerifyOptions,
  repeated: Repeated | undefined,
): void {
  const { transcription, audio, model, request, engine, executable, result } = evidence;
  const where = (device: string | null, variant: string | null) =>
    [device ?? "not known", ...(variant === null ? [] : [variant])].join(", ");
  const commit = executable.commit === null ? "" : `, commit ${executable.commit}`;
  context.io.out(
    renderFields([
      ["Outcome", key === undefined ? "unchanged since it was signed" : "signed with the key"],
      ["Key", fingerprint],
      ["Transcription", `${transcription.id}, ${transcription.state}`],
      ["Finished", transcription.finished_at],
      ["Recording", `${audio.upload_id}, ${audio.bytes} bytes, SHA-256 ${audio.sha256}`],
      ...(audio.source === undefined ? [] : [["Fetched from", audio.source] as [string, string]]),
      [
        "Model",
        `${model.id} ${model.version}, SHA-256 ${model.sha256}, ${HASHED[model.hashed ?? "manifest"]}`,
      ],
      ["Request", describeRequest(request)],
      ["Recognized on", where(engine.device, engine.cpu_variant)],
      ["Precision", engine.precision],
      ["Executable", `shruti ${executable.version}${commit}`],
      ["Result", `SHA-256 ${result.sha256}`],
      ...(repeated
        ? ([
            ["Given recording", "the same as that of the evidence"],
            ["Repeated on", where(repeated.device, repeated.cpuVariant)],
            ["Words", repeated.words ? "the same" : "not the same"],
            ["Whole result", wholeResult(repeated)],
          ] as const)
        : []),
    ]),
  );
  if (key === undefined)
    context.note(
      "The key is the document's own, which proves nothing about who signed. Compare it with `shruti receipts key`, or give it with --key.",
    );
}

const HASHED = {
  loaded: "of the weights that were loaded",
  manifest: "as the manifest said: an older version did not hash what it loaded",
};

function describeRequest(request: Evidence["request"]): string {
  const { language, mode, channel_mode, task, numerals, script } = request;
  const form = [task, numerals && `numerals ${numerals}`, script && `script ${script}`];
  return [language, mode, channel_mode, ...form].filter(Boolean).join(", ");
}

function wholeResult({ words, whole }: Repeated): string {
  if (whole) return "the same";
  return words ? "differs in times, speakers, confidences, warnings or gaps" : "not the same";
}

/**
 * Recognizes a recording as the evidence says. Everything that would make the comparison meaningless is refused before.
 *
 * @throws CommandError `failed` for another recording; `not_found` where there is none; `conflict` where this executable,
 *   its model or its settings are not those of the evidence
 */
async function repeat(context: CliContext, evidence: Evidence, file: string): Promise<Repeated> {
  const { executable, audio, model, request } = evidence;
  if (executable.version !== packageJson.version)
    throw refusal(`it was made by shruti ${executable.version}; this is ${packageJson.version}`);
  const { engine } = context.loadOwnConfig().config;
  const { precision, doubtful_text: doubtfulText } = evidence.engine;
  requireSame("engine.precision", precision, engine.precision);
  if (doubtfulText) requireSame("engine.doubtful_text", doubtfulText, engine.doubtful_text);
  if ((await hashOf(file)) !== audio.sha256)
    throw new CommandError("failed", `${file} is not the recording of the evidence: its SHA-256 differs`);
  let repeated: Repeated | undefined;
  const choices = {
    ...{ model: model.id, language: request.language, task: request.task, mode: request.mode },
    ...{ channelMode: request.channel_mode, isDiarized: request.diarization !== null },
    ...{ timestamps: request.timestamps, numerals: request.numerals, script: request.script },
    speakers: speakersOf(request.diarization),
    reading: audio.reading && readingOfDocument(audio.reading),
  };
  try {
    await withLocalTranscriber(context, choices, async (transcriber, plan) => {
      await requireModel(evidence, plan);
      repeated = await compare(transcriber, plan, evidence, file);
    });
  } catch (error) {
    if (error instanceof AppError && error.detail === "model")
      throw refusal(`the model ${model.id} is not installed here`);
    throw error;
  }
  if (!repeated) throw new Error("the recognition was not repeated");
  return repeated;
}

async function compare(
  transcriber: LocalTranscriber,
  plan: LocalPlan,
  { transcription, model, request, result }: Evidence,
  file: string,
): Promise<Repeated> {
  const { hashesOf } = await import("./evidence-document.ts");
  const hashes = hashesOf(await transcriber.transcribe(plan, file, () => undefined), {
    ...{ id: transcription.id, model: model.id, version: model.version },
    ...{ mode: request.mode, timestamps: request.timestamps },
    ...(request.metadata === undefined ? {} : { metadata: request.metadata }),
  });
  return {
    words: hashes.text_sha256 === result.text_sha256,
    whole: hashes.sha256 === result.sha256,
    device: transcriber.usage().device,
    cpuVariant: transcriber.cpuVariant() ?? null,
  };
}

async function requireModel({ model, engine }: Evidence, { model: installed }: LocalPlan): Promise<void> {
  const { canonicalJson } = await import("../../services/signed/signed-documents.ts");
  requireSame(`the version of ${model.id}`, model.version, installed.version);
  requireSame(`the SHA-256 of ${model.id}`, model.sha256, installed.sha256);
  const files = installed.parts?.map(({ name, sha256 }) => ({ name, sha256 }));
  if (model.files) requireSame(`the files of ${model.id}`, canonicalJson(model.files), canonicalJson(files));
  const decoding = canonicalJson(recordedDecoding(installed.decoding));
  requireSame(`[decoding] of ${model.id}`, canonicalJson(engine.decoding), decoding);
}

function requireSame(what: string, wanted: string, found: string): void {
  if (wanted !== found) throw refusal(`${what} is ${wanted} in the evidence, and ${found} here`);
}

const refusal = (reason: string) =>
  new CommandError("conflict", `the recognition cannot be repeated: ${reason}`);

function speakersOf(diarization: Evidence["request"]["diarization"]) {
  const { min_speakers: minSpeakers, max_speakers: maxSpeakers } = diarization ?? {};
  return { ...(minSpeakers ? { minSpeakers } : {}), ...(maxSpeakers ? { maxSpeakers } : {}) };
}

async function hashOf(file: string): Promise<string> {
  const [{ statRegularFile }, { sha256OfFile }] = await Promise.all([
    import("../../lib/regular-file.ts"),
    import("../../store/file-hash.ts"),
  ]);
  try {
    statRegularFile(file);
  } catch (error) {
    throw new CommandError("not_found", plainMessage(error));
  }
  return sha256OfFile(file);
}
