import { asc, eq } from "drizzle-orm";
import type { Store } from "./database.ts";
import { projects } from "./schema.ts";

export type ProjectRow = typeof projects.$inferSelect;

export function insertProject(tx: Store, row: ProjectRow): ProjectRow {
  return tx.insert(projects).values(row).returning().get();
}

export function findProject(store: Store, id: string): ProjectRow | undefined {
  return store.select().from(projects).where(eq(projects.id, id)).get();
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
