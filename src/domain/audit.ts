/** What the audit log records: each act that changes something (docs/decisions/audit-log.md). */
export const AUDIT_ACTIONS = [
  "organization.create",
  "organization.set",
  "organization.disable",
  "organization.enable",
  "organization.purge",
  "project.create",
  "project.set",
  "key.create",
  "key.revoke",
  "key.confirm",
  "credit.grant",
  "transcription.cancel",
  "transcription.delete",
  "transcription.retry",
  "upload.delete",
  "webhook.create",
  "webhook.enable",
  "webhook.disable",
  "webhook.remove",
  "webhook.rotate",
  "webhook.redeliver",
  "webhook.test",
  "watched_file.retry",
  "watched_file.delete",
  "bucket.add",
  "bucket.remove",
  "model.add",
  "model.remove",
  "model.default",
  "model.route",
  "speaker_weights.add",
  "speaker_weights.remove",
  "punctuation_model.add",
  "punctuation_model.remove",
  "bundle.install",
  "fleet_keys.create",
  "fleet_worker.add",
  "fleet_worker.remove",
  "fleet_worker.drain",
  "fleet_worker.resume",
  "session.link",
  "session.begin",
  "session.end",
  "session.end_all",
  "database.backup",
  "database.restore",
  "database.upgrade",
  "database.undo_upgrade",
  "database.keep_upgrade",
  "clock.confirm",
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** Small values of an object before or after an act. */
export type AuditValues = Readonly<Record<string, string | number | boolean | null>>;

/** An act, as the code that does it describes it. */
export type Act = {
  action: AuditAction;
  /** What was changed: an identifier, or the name of a model or a file; left out: the whole installation. */
  object?: string;
  /** To which organization the object belongs; left out: to none. */
  organizationId?: string;
  before?: AuditValues;
  after?: AuditValues;
};
