import { toTimestamp } from "../../lib/time.ts";
import type { RestoredAccess } from "../../services/backups/restored-access.ts";
import type { CliContext } from "../frame/context.ts";
import { counted, keysAre } from "../frame/output.ts";

/** What a restore says about keys, organizations, endpoints and sessions. */

const MAX_LINES = 20;
const CHANGES = {
  revoked: "revoked",
  disabled: "disabled",
  purge_started: "being purged",
  removed: "removed",
  secret_rotated: "has its newer secret",
  secret_is_old: "has its older secret again: rotate it",
} as const;
const KINDS = {
  api_key: "key",
  organization: "organization",
  webhook_endpoint: "webhook endpoint",
  fleet_worker: "worker",
} as const;

const time = (epochMs: number | undefined) => (epochMs === undefined ? null : toTimestamp(epochMs));

/** Renders the member `access` of `restore --json`. */
export function accessJson(access: RestoredAccess) {
  return {
    backup_at: time(access.backupMs),
    known_until: time(access.knownUntilMs),
    all_known: access.isAllKnown,
    closed: access.closed,
    ended: access.ended,
    keys_valid: access.keys,
    keys_held: access.held,
  };
}

/** Prints how many deletions were repeated. @param count undefined: the database must be upgraded first */
export function reportRepeated(context: CliContext, count: number | undefined): void {
  if (count === undefined) context.note("The next start of the server repeats later deletions.");
  else if (count > 0) {
    const were = count === 1 ? "was" : "were";
    context.printLine(`${counted(count, "deletion")} from after the backup ${were} repeated`);
  }
}

/** Prints what was closed again, what is not known, and what the admin has to do. */
export function reportAccess(context: CliContext, access: RestoredAccess): void {
  const { closed, ended, keys, held, isAllKnown } = access;
  for (const { kind, id, change } of closed.slice(0, MAX_LINES))
    context.printLine(`closed again: ${KINDS[kind]} ${id} (${CHANGES[change]})`);
  if (closed.length > MAX_LINES) context.printLine(`closed again: ${closed.length - MAX_LINES} more`);
  const sessions = ended.links + ended.sessions;
  if (sessions > 0) context.printLine(`ended: sessions and links of the console (${sessions})`);
  const until = time(access.knownUntilMs) ?? "a time that it does not name";
  context.note(
    isAllKnown
      ? `backup of ${time(access.backupMs) ?? "an unknown time"}; this machine knows what was deleted, revoked and disabled since then`
      : `backup of ${time(access.backupMs) ?? "an unknown time"}; what was deleted, revoked or disabled is known until ${until}, and nothing later`,
  );
  if (held > 0)
    context.note(
      `${keysAre(held)} refused until confirmed: \`shruti keys list\` shows which, \`shruti keys confirm\` accepts them`,
    );
  else if (keys > 0 && !isAllKnown)
    context.note(`${keysAre(keys)} valid as in the backup; revoke what should not be`);
}
