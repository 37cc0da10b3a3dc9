import type { Config } from "../../config/schema.ts";
import type { TranscriptionResult } from "../../domain/result.ts";
import { noticeOf } from "../../domain/trial.ts";
import { toSeconds } from "../../lib/time.ts";
import type { LocalPlan, LocalRequest, openLocalTranscriber } from "../../programs/local.ts";
import type { CliContext } from "../frame/context.ts";
import { cleanUpAtEnd } from "../frame/ending.ts";
import { becomeOwner } from "../frame/owner.ts";

export type { LocalPlan } from "../../programs/local.ts";
export type LocalTranscriber = Awaited<ReturnType<typeof openLocalTranscriber>>;

/** Choices of model and speech for a command that transcribes without a server. */
export type LocalChoices = Omit<LocalRequest, "modelId"> & { model?: string | undefined };

/**
 * Opens the pipeline without a server for a command's work, prints what its user should know about the model, and closes
 * the pipeline when the work has ended, also by an error.
 *
 * @throws AppError when no model fits the choices; what `work` throws
 */
export async function withLocalTranscriber(
  context: CliContext,
  { model, ...request }: LocalChoices,
  work: (transcriber: LocalTranscriber, plan: LocalPlan, config: Config) => Promise<void>,
): Promise<void> {
  // Only these commands need the engine.
  const { openLocalTranscriber } = await import("../../programs/local.ts");
  const { config, trustsDataDir } = context.loadOwnConfig();
  const { clock, io } = context;
  const user = becomeOwner(config);
  if (user !== undefined)
    context.note(
      `running as user ${user}, the owner of ${config.storage.data_dir}; this user must be able to read the recordings`,
    );
  const ending = cleanUpAtEnd();
  try {
    const transcriber = await openLocalTranscriber({
      ...{ config, clock, trustsDataDir, environment: io.environment },
      note: context.note,
    });
    try {
      const plan = transcriber.plan({ ...request, ...(model === undefined ? {} : { modelId: model }) });
      const notice = noticeOf(plan.model);
      if (notice !== undefined) context.note(`${plan.model.id}: ${notice}`);
      await work(transcriber, plan, config);
    } finally {
      await transcriber.close();
    }
  } finally {
    ending.stop();
  }
}

/** Renders one sentence for each stretch of speech that could not be transcribed. */
export function describeGaps({ gaps }: TranscriptionResult): string[] {
  return gaps.map(({ startMs, endMs, reason, channel }) => {
    const where = channel === undefined ? "" : ` of channel ${channel}`;
    return `${toSeconds(startMs)} s to ${toSeconds(endMs)} s${where} could not be transcribed (${reason})`;
  });
}
