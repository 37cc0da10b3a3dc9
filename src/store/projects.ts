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

/** How long a project keeps recordings and transcripts, days; 0: no limit; null: the config's. */
export type ProjectRetention = Pick<ProjectRow, "audioDays" | "transcriptDays">;

/** Changes at least one period. Returns the row after the change; undefined when there is none. */
export function updateProject(
  tx: Store,
  id: string,
  retention: Partial<ProjectRetention>,
): ProjectRow | undefined {
  return tx.update(projects).set(retention).where(eq(projects.id, id)).returning().get();
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
