import type { TranscriptionRow } from "../store/transcriptions.ts";
import { type Clocks, createClocks, createMemory } from "./clocks.ts";
import { remainingMsOf } from "./remaining-work.ts";

/** Work of a transcription that waits for a turn. */
export type TurnCandidate = {
  organizationId: string;
  /** The organization's share of turns. */
  weight: number;
  projectId: string;
  /** Identifiers sort by age. */
  transcriptionId: string;
  /** What is left of the transcription, milliseconds of recording over all channels that are recognized. */
  remainingMs: number;
  /** What the turn costs, milliseconds of recording. */
  costMs: number;
};

/** Returns the turn in which a whole transcription is started. */
export function turnOf(row: TranscriptionRow, weight: number): TurnCandidate {
  const { id: transcriptionId, organizationId, projectId } = row;
  const remainingMs = remainingMsOf(row);
  return {
    organizationId,
    projectId,
    transcriptionId,
    weight,
    remainingMs,
    costMs: Math.max(1, remainingMs),
  };
}

/**
 * Decides whose turn it is. Organizations share the machine by weight, and the projects of an organization share its part
 * equally. Within a project the transcription with the least work left is next, so that a short one does not wait for a
 * long one. A fifth of the project's turns goes to its oldest transcription, so that a long one ends too.
 */
export type Turns = {
  /** Returns the candidate whose turn it is, or undefined without candidates. */
  next<T extends TurnCandidate>(candidates: readonly T[]): T | undefined;
  /** Counts the cost of a turn that a candidate has taken. */
  account(candidate: TurnCandidate): void;
};

/** Work that goes to younger transcriptions for each unit of work of the oldest one. */
const YOUNGER_FOR_OLDEST = 4;

type ProjectTurns = {
  /** The oldest transcription of the latest choice. */
  oldestId: string | undefined;
  /** What the oldest transcription may take before younger ones, milliseconds of recording. */
  creditOfOldestMs: number;
};

export function createTurns(): Turns {
  const organizations = createClocks();
  const projectClocks = createMemory<Clocks>();
  const projects = createMemory<ProjectTurns>();

  function chooseInProject<T extends TurnCandidate>(projectId: string, waiting: readonly T[]): T | undefined {
    const oldest = first(waiting, isOlder);
    const creditOfOldestMs = projects.get(projectId)?.creditOfOldestMs ?? 0;
    projects.set(projectId, { oldestId: oldest?.transcriptionId, creditOfOldestMs });
    return oldest && creditOfOldestMs >= oldest.costMs ? oldest : first(waiting, hasLessLeft);
  }

  return {
    next(candidates) {
      const organizationId = organizations.next(candidates.map((candidate) => candidate.organizationId));
      if (organizationId === undefined) return undefined;
      const own = candidates.filter((candidate) => candidate.organizationId === organizationId);
      const clocks = projectClocks.get(organizationId) ?? createClocks();
      projectClocks.set(organizationId, clocks);
      const projectId = clocks.next(own.map((candidate) => candidate.projectId));
      if (projectId === undefined) return undefined;
      return chooseInProject(
        projectId,
        own.filter((candidate) => candidate.projectId === projectId),
      );
    },
    account({ organizationId, weight, projectId, transcriptionId, costMs }) {
      organizations.account(organizationId, weight, costMs);
      projectClocks.get(organizationId)?.account(projectId, 1, costMs);
      const project = projects.get(projectId);
      if (!project) return;
      const { oldestId, creditOfOldestMs } = project;
      const change = transcriptionId === oldestId ? -costMs : costMs / YOUNGER_FOR_OLDEST;
      projects.set(projectId, { oldestId, creditOfOldestMs: Math.max(0, creditOfOldestMs + change) });
    },
  };
}

function first<T>(candidates: readonly T[], isBefore: (left: T, right: T) => boolean): T | undefined {
  let chosen: T | undefined;
  for (const candidate of candidates) {
    if (chosen === undefined || isBefore(candidate, chosen)) chosen = candidate;
  }
  return chosen;
}

const isOlder = (left: TurnCandidate, right: TurnCandidate) => left.transcriptionId < right.transcriptionId;

/** Between transcriptions with as much work left, the older one is first. */
function hasLessLeft(left: TurnCandidate, right: TurnCandidate): boolean {
  return left.remainingMs === right.remainingMs ? isOlder(left, right) : left.remainingMs < right.remainingMs;
}
