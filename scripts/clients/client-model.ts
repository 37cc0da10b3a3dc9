/** What a client in any language needs of the OpenAPI document: named types and operations. */

/** A type of a field, in the terms that both languages have. Objects have names of their own, so that they are only referred to. */
export type ModelType =
  | { kind: "string" | "integer" | "number" | "boolean" | "null" | "file" | "anything" }
  | { kind: "words"; words: readonly (string | boolean)[] }
  | { kind: "list"; of: ModelType }
  | { kind: "map"; of: ModelType }
  | { kind: "either"; types: readonly ModelType[] }
  | { kind: "named"; name: string };

export type ModelField = { name: string; type: ModelType; isRequired: boolean; description: string };

export type Declaration = { name: string; description: string } & (
  | { fields: readonly ModelField[]; alias?: never }
  | { alias: ModelType; fields?: never }
);

export type ModelOperation = {
  /** In camel case, such as `createTranscription`. */
  id: string;
  method: string;
  /** With parameters in braces. */
  path: string;
  description: string;
  pathParameters: readonly string[];
  query: readonly ModelField[];
  body:
    | { kind: "json" | "form"; fields: readonly ModelField[]; name: string; isRequired: boolean }
    | undefined;
  /** Whether the header `Idempotency-Key` is taken. */
  takesKey: boolean;
  /** What the answer is: JSON of this type, or bytes of a file. */
  answer: ModelType | "bytes";
  /** Media types other than JSON that the answer can have; empty where there is only JSON. */
  texts: readonly string[];
  /** The type of the elements, where the answer is a page of a list. */
  pageOf: ModelType | undefined;
};

export type ClientModel = {
  declarations: readonly Declaration[];
  operations: readonly ModelOperation[];
  version: string;
};

export type Json = { readonly [name: string]: unknown };
type Schema = Json & { properties?: Record<string, Schema>; required?: string[]; anyOf?: Schema[] };
type Parameter = { name: string; in: string; required?: boolean; description?: string; schema: Schema };
type Content = Record<string, { schema: Schema }>;
type Described = {
  operationId: string;
  summary: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Content };
  responses: Record<string, { content?: Content }>;
};
type Document = {
  info: { version: string };
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Schema> };
};

/** Only these are for clients. Files are sent by hand-written code, and OpenAI's layer has clients of its own. */
const PREFIX = "/v1/";
const REFERENCE = "#/components/schemas/";
/** Types that no operation refers to, but receivers of webhooks. */
const EVENTS = ["WebhookEvent", "CreditLowEvent"];

/** Reads types and operations of the paths below `/v1/`, in the order of their names and of the document. */
export function readModel(json: Json): ClientModel {
  const document = json as unknown as Document;
  const declarations = new Map<string, Declaration>();
  const types = createTypeReader(document.components.schemas, declarations);
  const operations = Object.entries(document.paths)
    .filter(([path]) => path.startsWith(PREFIX))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => operationOf(path, method, described, types)),
    );
  for (const name of ["Error", ...EVENTS]) types.read({ $ref: `${REFERENCE}${name}` }, name);
  const sorted = [...declarations.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return { declarations: sorted, operations, version: document.info.version };
}

type TypeReader = ReturnType<typeof createTypeReader>;

function createTypeReader(schemas: Record<string, Schema>, declarations: Map<string, Declaration>) {
  /** @param place names an object that has no name of its own, such as `UploadError` */
  function read(schema: Schema, place: string): ModelType {
    const { $ref, anyOf, type, items, additionalProperties } = schema as Schema & { items?: Schema };
    if (typeof $ref === "string") return named($ref.slice(REFERENCE.length));
    if (schema.properties) return declared(place, schema);
    if (anyOf) {
      const types = anyOf.map((branch) =>
        read(branch, `${place}${pascal(branch.required?.join("_") ?? "")}`),
      );
      return { kind: "either", types };
    }
    if ("const" in schema) return { kind: "words", words: [schema.const as string | boolean] };
    if (Array.isArray(schema.enum)) return { kind: "words", words: schema.enum as string[] };
    if (type === "array") return { kind: "list", of: read(items ?? {}, `${place}Item`) };
    if (type === "object" && typeof additionalProperties === "object")
      return { kind: "map", of: read(additionalProperties as Schema, `${place}Value`) };
    if (schema.format === "binary") return { kind: "file" };
    if (type === "string" || type === "integer" || type === "number" || type === "boolean" || type === "null")
      return { kind: type };
    return { kind: "anything" };
  }

  function named(original: string): ModelType {
    // `Error` is a word of both languages.
    const name = original === "Error" ? "ErrorBody" : original;
    const schema = schemas[original];
    if (schema === undefined) throw new Error(`the document has no schema ${original}`);
    if (declarations.has(name)) return { kind: "named", name };
    const description = text(schema.description);
    if (schema.properties) return declared(name, schema);
    // The name is taken before the type is read, because a type may contain itself.
    declarations.set(name, { name, description, alias: { kind: "anything" } });
    declarations.set(name, { name, description, alias: read(schema, name) });
    return { kind: "named", name };
  }

  function declared(name: string, schema: Schema): ModelType {
    declarations.set(name, { name, description: text(schema.description), fields: [] });
    declarations.set(name, { name, description: text(schema.description), fields: fields(schema, name) });
    return { kind: "named", name };
  }

  function fields(schema: Schema, place: string): ModelField[] {
    return Object.entries(schema.properties ?? {}).map(([name, field]) => ({
      name,
      type: read(field, `${place}${pascal(name)}`),
      isRequired: schema.required?.includes(name) ?? false,
      description: text(field.description),
    }));
  }

  /** Returns the fields of a schema, which may be a reference. */
  const fieldsOf = (type: ModelType): readonly ModelField[] =>
    type.kind === "named" ? (declarations.get(type.name)?.fields ?? []) : [];

  return { read, fieldsOf };
}

function operationOf(path: string, method: string, described: Described, types: TypeReader): ModelOperation {
  const id = described.operationId;
  const parameters = described.parameters ?? [];
  const answers = Object.entries(described.responses)
    .filter(([status]) => status.startsWith("2"))
    .flatMap(([, { content }]) => Object.entries(content ?? {}));
  const json = answers.find(([media]) => media === "application/json")?.[1].schema;
  const answer = json === undefined ? "bytes" : types.read(json, `${pascal(id)}Answer`);
  return {
    id,
    method: method.toUpperCase(),
    path,
    description: [described.summary, described.description]
      .filter(Boolean)
      .map((part) => `${part}`.replace(/\.?$/, "."))
      .join("\n\n"),
    pathParameters: parameters.filter((each) => each.in === "path").map(({ name }) => name),
    query: parameters
      .filter((each) => each.in === "query")
      .map(({ name, schema, required = false, description }) => ({
        name,
        type: types.read(schema, `${pascal(id)}${pascal(name)}`),
        isRequired: required,
        description: text(description),
      })),
    body: bodyOf(id, described, types),
    takesKey: parameters.some(({ name }) => name === "Idempotency-Key"),
    answer,
    texts:
      answer === "bytes"
        ? []
        : [...new Set(answers.map(([media]) => media))].filter((media) => media !== "application/json"),
    pageOf: pageOf(answer, parameters, types),
  };
}

function bodyOf(id: string, { requestBody }: Described, types: TypeReader): ModelOperation["body"] {
  if (!requestBody) return undefined;
  const [[media = "", { schema } = { schema: {} }] = []] = Object.entries(requestBody.content);
  const type = types.read(schema, `${pascal(id)}Body`);
  if (type.kind !== "named") throw new Error(`the body of ${id} has no fields`);
  const kind = media === "application/json" ? "json" : "form";
  return { kind, fields: types.fieldsOf(type), name: type.name, isRequired: requestBody.required ?? false };
}

function pageOf(
  answer: ModelType | "bytes",
  parameters: readonly Parameter[],
  types: TypeReader,
): ModelType | undefined {
  if (answer === "bytes" || !parameters.some(({ name }) => name === "after")) return undefined;
  const data = types.fieldsOf(answer).find(({ name }) => name === "data")?.type;
  return data?.kind === "list" ? data.of : undefined;
}

const text = (description: unknown) => (typeof description === "string" ? description : "");

/** Writes `upload_id` as `UploadId`, and `createUpload` as `CreateUpload`. */
export function pascal(name: string): string {
  return name
    .split(/[_-]/)
    .map((part) => part.slice(0, 1).toUpperCase() + part.slice(1))
    .join("");
}
