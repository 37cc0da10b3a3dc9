import { newId } from "../../lib/ids.ts";
import type { Database } from "../../store/database.ts";

/** Inserts an organization, a project and an upload, with identifiers of the right form. */
export function createProjectIn({ sqlite }: Database) {
  const ids = {
    organizationId: newId("organization", 0),
    projectId: newId("project", 0),
    uploadId: newId("upload", 0),
  };
  sqlite.run("INSERT INTO organizations (id, name, created_at) VALUES (?, 'test', 0)", [ids.organizationId]);
  sqlite.run("INSERT INTO projects (id, organization_id, name, created_at) VALUES (?, ?, 'test', 0)", [
    ids.projectId,
    ids.organizationId,
  ]);
  sqlite.run(
    `INSERT INTO uploads (id, organization_id, project_id, state, bytes, token_hash, created_at, expires_at)
     VALUES (?, ?, ?, 'complete', 1, '', 0, 0)`,
    [ids.uploadId, ids.organizationId, ids.projectId],
  );
  return ids;
}
