import {
  type ClientModel,
  type Declaration,
  type ModelField,
  type ModelOperation,
  type ModelType,
  pascal,
} from "./client-model.ts";

const HEAD = "// Generated from the OpenAPI document by scripts/clients/generate.ts. Do not edit it.";

/** Writes the TypeScript modules with all types (`types`), and with a method for each operation (`operations`). */
export function renderTypeScript({ declarations, operations, version }: ClientModel) {
  const requests = new Set(operations.flatMap(({ body }) => (body ? [body.name] : [])));
  const types = [
    HEAD,
    `/** The version of the server whose document this is. */\nexport const VERSION = ${JSON.stringify(version)};`,
    ...declarations.map((each) => declarationOf(each, requests)),
    ...operations.filter(hasQuery).map(queryOf),
    "",
  ].join("\n\n");
  const named = [...types.matchAll(/^export type (\w+)/gm)].map(([, name = ""]) => name);
  const methods = classOf(operations);
  const used = named.filter((name) => new RegExp(`\\b${name}\\b`).test(methods)).sort();
  const imports = [
    `import { pages } from "./pages.ts";`,
    `import { type ApiRequest, type RequestOptions, segment } from "./transport.ts";`,
    `import type {\n${used.map((name) => `  ${name},`).join("\n")}\n} from "./types.ts";`,
  ];
  return { types, operations: [HEAD, imports.join("\n"), methods, ""].join("\n\n") };
}

const hasQuery = ({ query }: ModelOperation) => query.length > 0;
const queryName = ({ id }: ModelOperation) => `${pascal(id)}Query`;

function declarationOf(
  { name, description, fields, alias }: Declaration,
  requests: ReadonlySet<string>,
): string {
  const type = fields ? objectOf(fields, requests.has(name)) : typeOf(alias);
  return `${comment(description)}export type ${name} = ${type};`;
}

function queryOf(operation: ModelOperation): string {
  return `/** The query of \`${operation.id}\`. */\nexport type ${queryName(operation)} = ${objectOf(operation.query, true)};`;
}

/** @param isSent allows undefined for a field that is left out */
function objectOf(fields: readonly ModelField[], isSent: boolean): string {
  const lines = fields.map(({ name, type, isRequired, description }) => {
    const mark = isRequired ? "" : "?";
    const rest = isSent && !isRequired ? " | undefined" : "";
    return `${comment(description, "  ")}  ${nameOf(name)}${mark}: ${typeOf(type)}${rest};`;
  });
  return `{\n${lines.join("\n")}\n}`;
}

function typeOf(type: ModelType): string {
  if (type.kind === "named") return type.name;
  if (type.kind === "words") return type.words.map((word) => JSON.stringify(word)).join(" | ");
  if (type.kind === "list") return `Array<${typeOf(type.of)}>`;
  if (type.kind === "map") return `Record<string, ${typeOf(type.of)}>`;
  if (type.kind === "either") return type.types.map(typeOf).join(" | ");
  if (type.kind === "integer") return "number";
  if (type.kind === "file") return "Blob";
  return type.kind === "anything" ? "unknown" : type.kind;
}

function classOf(operations: readonly ModelOperation[]): string {
  const methods = operations.flatMap((operation) => [
    methodOf(operation),
    ...(operation.texts.length > 0 ? [textMethodOf(operation)] : []),
    ...(operation.pageOf ? [iterationOf(operation, operation.pageOf)] : []),
  ]);
  return `/** One method for each operation of the interface. \`Shruti\` adds how requests are sent. */
export abstract class Operations {
  /** Sends a request and reads its answer. */
  protected abstract call<T>(request: ApiRequest, options: RequestOptions | undefined): Promise<T>;

${methods.join("\n\n")}
}`;
}

type Arguments = { parameters: string[]; request: string[] };

/** Returns the parameters of a method, and the members of its request. */
function argumentsOf(operation: ModelOperation): Arguments {
  const { method, path, pathParameters, body, query, takesKey } = operation;
  const address = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => `\${segment(${camel(name)})}`);
  const parameters = pathParameters.map((name) => `${camel(name)}: string`);
  const request = [
    `method: ${JSON.stringify(method)}`,
    `path: ${pathParameters.length > 0 ? `\`${address}\`` : JSON.stringify(path)}`,
  ];
  if (body) {
    parameters.push(body.isRequired ? `body: ${body.name}` : `body: ${body.name} = {}`);
    request.push(body.kind === "json" ? "json: body" : "form: body");
  }
  if (hasQuery(operation)) {
    const isNeeded = query.some(({ isRequired }) => isRequired);
    parameters.push(`query: ${queryName(operation)}${isNeeded ? "" : " = {}"}`);
    request.push("query");
  }
  if (takesKey) request.push("takesKey: true");
  return { parameters: [...parameters, "options?: RequestOptions"], request };
}

function methodOf(operation: ModelOperation): string {
  const { parameters, request } = argumentsOf(operation);
  const { answer } = operation;
  const type = answer === "bytes" ? "Response" : typeOf(answer);
  const members = answer === "bytes" ? [...request, `answer: "stream"`] : request;
  return method(operation.description, operation.id, parameters, type, members);
}

/** Writes the method for an answer that is text, such as subtitles. */
function textMethodOf(operation: ModelOperation): string {
  const { parameters, request } = argumentsOf(operation);
  const byQuery = operation.query.find(({ name }) => name === "format");
  const formats = operation.texts.map((media) => JSON.stringify(media)).join(" | ");
  // A path parameter or a body is first; the form of the text is second.
  const own = byQuery
    ? `format: Exclude<NonNullable<${queryName(operation)}["format"]>, "json">`
    : `mediaType: ${formats}`;
  const [first = "", ...others] = parameters;
  const given = byQuery
    ? others.map((each) => each.replace(queryName(operation), `Omit<${queryName(operation)}, "format">`))
    : others;
  const members = byQuery
    ? request.map((each) => (each === "query" ? "query: { ...query, format }" : each))
    : [...request, "mediaType"];
  const description = `${operation.description.split("\n\n")[0]} The answer is text in the form that is asked for.`;
  return method(description, `${operation.id}Text`, [first, own, ...given], "string", [
    ...members,
    `answer: "text"`,
  ]);
}

function iterationOf(operation: ModelOperation, element: ModelType): string {
  const name = operation.id.replace(/^(list|get)/, "iterate");
  const { parameters } = argumentsOf(operation);
  const type = `AsyncGenerator<${typeOf(element)}, void, undefined>`;
  return `  /** Like \`${operation.id}\`, one element after the other, with the pages behind the first one. */
  ${name}(${parameters.join(", ")}): ${type} {
    return pages((page) => this.${operation.id}({ ...query, ...page }, options));
  }`;
}

function method(
  description: string,
  name: string,
  parameters: readonly string[],
  type: string,
  request: readonly string[],
): string {
  return `${comment(description, "  ")}  ${name}(${parameters.join(", ")}): Promise<${type}> {
    return this.call({ ${request.join(", ")} }, options);
  }`;
}

function comment(description: string, indent = ""): string {
  if (description === "") return "";
  const lines = description.replaceAll("*/", "*\\/").split("\n");
  if (lines.length === 1) return `${indent}/** ${lines[0]} */\n`;
  return `${indent}/**\n${lines.map((line) => `${indent} * ${line}`.trimEnd()).join("\n")}\n${indent} */\n`;
}

const nameOf = (field: string) => (/^[A-Za-z_]\w*$/.test(field) ? field : JSON.stringify(field));

const camel = (name: string) => name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
