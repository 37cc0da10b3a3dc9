import type { Scope } from "../domain/api-key.ts";
import { AppError } from "../domain/errors.ts";
import { type Operation, operationOf } from "./route.ts";

/** A route as the entrance needs it: the framework knows neither scopes nor 405. */
export type RouteEntry = {
  method: string;
  /** As `/v1/transcriptions/:transcription_id`. */
  template: string;
  /** Absent on public routes. */
  operation: Operation | undefined;
  takesBody: boolean;
};

type ListedRoute = { method: string; path: string; hooks: unknown };
type Indexed = { segments: string[]; entries: RouteEntry[] };

export type Router = ReturnType<typeof createRouter>;

/** Finds routes by path, whatever the method, so that 404 and 405 can be told apart. */
export function createRouter(routes: readonly ListedRoute[]) {
  const byTemplate = new Map<string, Indexed>();
  for (const route of routes) {
    const operation = operationOf(route);
    const hooks = route.hooks as { body?: unknown };
    const entry = {
      method: route.method,
      template: route.path,
      operation,
      takesBody: hooks.body !== undefined || operation?.multipart !== undefined,
    };
    const known = byTemplate.get(route.path) ?? { segments: route.path.split("/"), entries: [] };
    known.entries.push(entry);
    byTemplate.set(route.path, known);
  }
  const templates = [...byTemplate.values()];

  return {
    /** All routes of a path; empty for an unknown one. */
    match(path: string): RouteEntry[] {
      const exact = byTemplate.get(path);
      if (exact) return exact.entries;
      const segments = path.split("/");
      return templates.find((template) => matches(template.segments, segments))?.entries ?? [];
    },
  };
}

/**
 * The route for a method; `HEAD` goes where `GET` goes (RFC 9110 section 9.3.2).
 *
 * @throws AppError `not_found`, `method_not_allowed` with the methods that are
 */
export function requireRoute(entries: readonly RouteEntry[], method: string): RouteEntry {
  if (entries.length === 0) throw new AppError("not_found");
  const wanted = method === "HEAD" ? "GET" : method;
  const entry = entries.find((candidate) => candidate.method === wanted);
  if (!entry) throw new AppError("method_not_allowed", { allow: methodsOf(entries) });
  return entry;
}

/** As they stand in `Allow`. */
export function methodsOf(entries: readonly RouteEntry[]): string[] {
  return entries.flatMap(({ method }) => (method === "GET" ? ["GET", "HEAD"] : [method]));
}

/** @throws AppError `forbidden`, detail: the scope the key lacks */
export function requireScope(scopes: ReadonlySet<Scope>, needed: Scope): void {
  if (scopes.has(needed)) return;
  throw new AppError("forbidden", { detail: needed, message: `This API key lacks the scope ${needed}.` });
}

function matches(template: readonly string[], segments: readonly string[]): boolean {
  if (template.length !== segments.length) return false;
  return template.every((part, index) => {
    const segment = segments[index] ?? "";
    // Identifiers need no encoding: a percent sign cannot belong to one.
    return part.startsWith(":") ? segment !== "" && !segment.includes("%") : part === segment;
  });
}
