/** Forms of answers to an admin: lists, pages and files. */

/** A list that has one page. */
export function whole<T>(data: T[]) {
  return { object: "list" as const, data, next: null };
}

/** A page, made of rows of which the last one only shows that there are more. `idOf` returns what `after` takes. */
export function pageOf<T>(rows: T[], limit: number, idOf: (row: T) => string) {
  const data = rows.slice(0, limit);
  const last = rows.length > limit ? data.at(-1) : undefined;
  return { object: "list" as const, data, next: last === undefined ? null : idOf(last) };
}

/** Sends CSV part by part, as the client takes it. */
export function csvResponse(name: string, parts: Generator<string>): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const { done, value } = parts.next();
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      cancel: () => void parts.return(undefined),
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": `attachment; filename="${name}"`,
    },
  });
}
