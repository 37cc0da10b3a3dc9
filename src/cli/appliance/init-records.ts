import { existsSync } from "node:fs";
import type { Clock } from "../../lib/clock.ts";
import { writeNewFileNow } from "../../lib/durable-files.ts";
import { named } from "../../lib/named.ts";
import { asWriterOf } from "../../lib/rights.ts";
import type { ApiKeyService } from "../../services/api-keys.ts";
import { CommandError } from "../frame/context.ts";

/** Names of what the first request needs. `language`: code of requests that name none, for a project that is made. */
export type RecordNames = {
  organization: string;
  project: string;
  key: string;
  language: string | undefined;
};

/** `key`: its text; null where the key was there already: only its maker has its text. */
export type Records = { organizationId: string; projectId: string; key: string | null };

/**
 * Makes organization, project and key in a database, each unless there is one of its name.
 *
 * @param path of the database; it is made where there is none
 * @param keyFile gets the text of a key that is made, and must not be there then; undefined: no file
 * @throws CommandError `conflict` where the file for the key is there; AppError as the services do, such as `conflict` where
 *   several have one name
 */
export async function makeRecords(
  path: string,
  clock: Clock,
  names: RecordNames,
  keyFile: string | undefined,
): Promise<Records> {
  const [{ openDatabase }, { createAccountService }, { createApiKeyService }] = await Promise.all([
    import("../../store/database.ts"),
    import("../../services/accounts.ts"),
    import("../../services/api-keys.ts"),
  ]);
  const database = openDatabase(path);
  const apiKeys = createApiKeyService({ database, clock });
  try {
    const accounts = createAccountService({ database, clock });
    const organizationId = accounts.ensureOrganization({ name: names.organization }).organization.id;
    const { project, isNew } = accounts.ensureProject({ organizationId, name: names.project });
    const projectId = project.id;
    if (isNew && names.language !== undefined)
      accounts.setProject(projectId, { defaultLanguage: names.language });
    const key = hasKey(apiKeys, projectId, names.key, clock.now())
      ? null
      : makeKey(apiKeys, projectId, names.key, keyFile);
    return { organizationId, projectId, key };
  } finally {
    apiKeys.close();
    database.close();
  }
}

/** A key that is revoked or has expired is none: the next one of its name takes its place. */
function hasKey(apiKeys: ApiKeyService, projectId: string, name: string, nowMs: number): boolean {
  return named(apiKeys.listKeys({ projectId }), name.trim()).some(
    ({ revokedAt, expiresAt }) => revokedAt === null && (expiresAt === null || expiresAt > nowMs),
  );
}

/** Makes a key. Where its text cannot be written down, it is revoked again, because its text would be lost. */
function makeKey(
  apiKeys: ApiKeyService,
  projectId: string,
  name: string,
  keyFile: string | undefined,
): string {
  if (keyFile !== undefined) requireNoKeyFile(keyFile);
  const { id, key } = apiKeys.createKey({ projectId, name });
  if (keyFile === undefined) return key;
  try {
    asWriterOf(keyFile, () => writeNewFileNow(keyFile, `${key}\n`, 0o600));
    return key;
  } catch (error) {
    apiKeys.revokeKey(id);
    throw error;
  }
}

/** @throws CommandError `conflict` where a file for the key is there */
export function requireNoKeyFile(keyFile: string): void {
  if (asWriterOf(keyFile, () => existsSync(keyFile)))
    throw new CommandError("conflict", `${keyFile} exists already; init does not overwrite it`);
}
