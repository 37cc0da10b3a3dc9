import { asc, eq } from "drizzle-orm";
import type { Store } from "./database.ts";
import { projects } from "./schema.ts";

export type ProjectRow = typeof projects.$inferSelect;

export function insertProject(tx: Store, row: typeof projects.$inferInsert): ProjectRow {
  return tx.insert(projects).values(row).returning().get();
}

export function findProject(store: Store, id: string): ProjectRow | undefined {
  return store.select().from(projects).where(eq(projects.id, id)).get();
}

/** What an admin can set: see the columns. Null: the config's. */
export type ProjectSettings = Pick<ProjectRow, "audioDays" | "transcriptDays" | "defaultLanguage">;

/** Changes at least one setting. Returns the row after the change; undefined when there is none. */
export function updateProject(
  tx: Store,
  id: string,
  settings: Partial<ProjectSettings>,
): ProjectRow | undefined {
  return tx.update(projects).set(settings).where(eq(projects.id, id)).returning().get();
}

/** Lists the projects of one organization or of all, oldest first. */
export function listProjects(store: Store, organizationId?: string): ProjectRow[] {
  return store
    .select()
    .from(projects)
    .where(organizationId === undefined ? undefined : eq(projects.organizationId, organizationId))
    .orderBy(asc(projects.id))
    .all();
}
