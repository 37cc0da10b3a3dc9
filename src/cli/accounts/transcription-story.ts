import { printable } from "../../lib/printable.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import type { TranscriptionStory } from "../../services/transcriptions/story.ts";
import { renderFields, renderTable, rupees } from "../frame/output.ts";

/** How `shruti transcriptions show` writes the story of a transcription. */

/** The fields that `--json` adds to those of the record. */
export function storyJson({ row, pace, chunks, ledger, delivery, retries, acts }: TranscriptionStory) {
  return {
    history: movesOf(row),
    waited_seconds: toSeconds(pace.waitedMs),
    worked_seconds: toSeconds(pace.workedMs),
    times_real_time: pace.timesRealTime,
    runs: pace.runs,
    chunks: chunks && {
      total: chunks.chunks,
      ...{ ended: chunks.ended, gaps: chunks.gaps, failures: chunks.failures, crashes: chunks.crashes },
      troubled: chunks.troubled.map(({ startMs, endMs, ...rest }) => ({
        ...{ start: toSeconds(startMs), end: toSeconds(endMs), ...rest },
      })),
    },
    device: row.work?.means?.device ?? null,
    model_sha256: row.work?.means?.modelSha256 ?? null,
    executable: row.work?.means?.executable ?? null,
    ledger: ledger.map(({ sequence, kind, amountPaise, createdAt }) => ({
      ...{ sequence, kind, amount_paise: amountPaise, created_at: toTimestamp(createdAt) },
    })),
    webhook: delivery
      ? {
          ...{ endpoint_id: delivery.endpointId, event_id: delivery.eventId, state: delivery.state },
          reason: delivery.reason,
          attempts: delivery.history.map(({ startedAt, durationMs, status, error }) => ({
            ...{ started_at: toTimestamp(startedAt), seconds: toSeconds(durationMs), status, error },
          })),
        }
      : null,
    retry_of: row.retryOfId,
    retries: retries.map(({ id, state }) => ({ id, state })),
    acts: acts.map(({ sequence, createdAt, source, actor, via, action }) => ({
      ...{ entry: sequence, created_at: toTimestamp(createdAt), source, actor, via, action },
    })),
  };
}

function movesOf({ createdAt, history }: TranscriptionStory["row"]) {
  const moves = [[createdAt, "queued"] as const, ...history];
  return moves.map(([atMs, state]) => ({ state, at: toTimestamp(atMs) }));
}

/** Renders what the table of fields does not have, in paragraphs with headings. */
export function renderStory(story: TranscriptionStory): string {
  const { row, pace, retries, acts } = story;
  const times = pace.timesRealTime === null ? [] : [`${pace.timesRealTime} × real time`];
  const worked = [`waited ${toSeconds(pace.waitedMs)} s`, `worked ${toSeconds(pace.workedMs)} s`, ...times];
  const means = row.work?.means;
  return [
    paragraph("History", [
      ...movesOf(row).map(({ state, at }) => `${at}  ${state}`),
      `${worked.join(", ")}; begun ${pace.runs} ${pace.runs === 1 ? "time" : "times"}`,
    ]),
    paragraph("Chunks", chunkLines(story)),
    means
      ? `\nMeans\n${indent(
          renderFields([
            ["Device", means.device],
            ["Model's SHA-256", means.modelSha256],
            ["Executable", `shruti ${means.executable}`],
          ]),
        )}`
      : "",
    paragraph(
      "Money",
      story.ledger.map(({ createdAt, kind, amountPaise }) =>
        [toTimestamp(createdAt), kind.padEnd(7), rupees(amountPaise)].join("  "),
      ),
    ),
    paragraph("Webhook", deliveryLines(story)),
    paragraph(
      "Retries",
      [...(row.retryOfId === null ? [] : [`this one retries ${row.retryOfId}`])].concat(
        retries.map(({ id, state }) => `${id}  ${state}`),
      ),
    ),
    acts.length === 0
      ? ""
      : `\nActs\n${indent(
          renderTable(
            ["TIME", "ACT", "WHO"],
            acts.map((act) => [toTimestamp(act.createdAt), act.action, `${act.source}: ${act.actor}`]),
          ),
        )}`,
  ].join("");
}

function chunkLines({ chunks }: TranscriptionStory): string[] {
  if (!chunks) return [];
  const counts = `${chunks.chunks} in all, ${chunks.ended} ended, ${chunks.gaps} of them without text`;
  const failures = `${chunks.failures} failed attempts, ${chunks.crashes} of them ended the worker process`;
  const troubled = chunks.troubled.map(({ channel, startMs, endMs, reason, ...counted }) => {
    const where = `${toSeconds(startMs)} s to ${toSeconds(endMs)} s of channel ${channel}`;
    const end = reason === null ? "a later attempt succeeded" : `given up: ${reason}`;
    return `${where}: ${counted.failures} failed, ${counted.crashes} ended the process; ${end}`;
  });
  return [counts, ...(chunks.failures > 0 ? [failures] : []), ...troubled];
}

function deliveryLines({ row, delivery }: TranscriptionStory): string[] {
  if (row.webhookEndpointId === null) return [];
  if (!delivery) return [`${row.webhookEndpointId}: no event yet, or it was removed by its age`];
  const { eventId, endpointId, state, reason, history } = delivery;
  return [
    `${eventId} to ${endpointId}: ${state}${reason === null ? "" : `: ${reason}`}`,
    ...history.map(({ startedAt, durationMs, status, error }) => {
      const outcome = [status === null ? "no answer" : String(status), error ?? ""].join(" ").trim();
      return `${toTimestamp(startedAt)}  ${toSeconds(durationMs)} s  ${outcome}`;
    }),
  ];
}

/** A heading and indented lines; nothing where there are none. */
function paragraph(heading: string, lines: readonly string[]): string {
  if (lines.length === 0) return "";
  return `\n${heading}\n${indent(lines.map((line) => `${printable(line)}\n`).join(""))}`;
}

function indent(text: string): string {
  return text.replaceAll(/^(?=.)/gm, "  ");
}
