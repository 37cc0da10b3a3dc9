import type { ClientModel, Declaration, ModelField, ModelOperation, ModelType } from "./client-model.ts";

const HEAD = "# Generated from the OpenAPI document by scripts/clients/generate.ts. Do not edit it.";
const FUTURE = "from __future__ import annotations";
const WORDS_PER_LINE = 110;

/** Writes the Python modules with all types (`types`), and with a method for each operation (`operations`). */
export function renderPython({ declarations, operations, version }: ClientModel) {
  const objects = declarations.filter(({ fields }) => fields !== undefined);
  const aliases = declarations.filter(({ alias }) => alias !== undefined);
  const types = [
    `${HEAD}\n${FUTURE}\n\nfrom typing import Dict, List, Literal, Optional, TypedDict, Union\n\nfrom .recordings import Recording`,
    `VERSION = ${JSON.stringify(version)}\n"""The version of the server whose document this is."""`,
    ...objects.map(objectOf),
    // Annotations are read late, but aliases at once: they stand below the classes.
    ...aliases.map(aliasOf),
  ];
  return { types: `${types.join("\n\n\n")}\n`, operations: classOf(operations) };
}

function aliasOf({ name, description, alias }: Declaration): string {
  const type = `${name} = ${typeOf(alias ?? { kind: "anything" }, (named) => JSON.stringify(named))}`;
  return description === "" ? type : `${type}\n${docstring(description, "")}`;
}

function objectOf({ name, description, fields = [] }: Declaration): string {
  if (fields.some((field) => !isName(field.name))) return functionalObjectOf(name, description, fields);
  const [required, optional] = [fields.filter(isNeeded), fields.filter((field) => !isNeeded(field))];
  const doc = description === "" ? [] : [`${docstring(description, "    ")}\n`];
  const lines = (some: readonly ModelField[]) => some.flatMap((field) => fieldOf(field));
  if (optional.length === 0) return classText(name, "TypedDict", [...doc, ...lines(required)]);
  if (required.length === 0) return classText(name, "TypedDict, total=False", [...doc, ...lines(optional)]);
  // `NotRequired` is not in Python 3.9.
  return [
    classText(`_${name}Required`, "TypedDict", lines(required)),
    classText(name, `_${name}Required, total=False`, [...doc, ...lines(optional)]),
  ].join("\n\n\n");
}

const isNeeded = ({ isRequired }: ModelField) => isRequired;

const classText = (name: string, bases: string, lines: readonly string[]) =>
  `class ${name}(${bases}):\n${lines.join("\n")}`;

function fieldOf({ name, type, description }: ModelField): string[] {
  const line = `    ${name}: ${typeOf(type)}`;
  return description === "" ? [line] : [line, docstring(description, "    ")];
}

/** Writes an object with fields that are no names of Python. */
function functionalObjectOf(name: string, description: string, fields: readonly ModelField[]): string {
  const [required, optional] = [fields.filter(isNeeded), fields.filter((field) => !isNeeded(field))];
  const doc = description === "" ? "" : `\n${docstring(description, "")}`;
  if (required.length === 0) return `${functionalText(name, optional, false)}${doc}`;
  if (optional.length === 0) return `${functionalText(name, required, true)}${doc}`;
  return [
    functionalText(`_${name}Required`, required, true),
    functionalText(`_${name}Optional`, optional, false),
    classText(name, `_${name}Required, _${name}Optional`, [docstring(description || name, "    ")]),
  ].join("\n\n\n");
}

function functionalText(name: string, fields: readonly ModelField[], isTotal: boolean): string {
  const lines = fields.map(
    (field) =>
      `        ${JSON.stringify(field.name)}: ${JSON.stringify(typeOf(field.type).replaceAll('"', "'"))},`,
  );
  return `${name} = TypedDict(\n    "${name}",\n    {\n${lines.join("\n")}\n    },\n    total=${isTotal ? "True" : "False"},\n)`;
}

/** @param named writes the name of a type */
function typeOf(type: ModelType, named: (name: string) => string = (name) => name): string {
  if (type.kind === "named") return named(type.name);
  if (type.kind === "words") return `Literal[${type.words.map(literalOf).join(", ")}]`;
  if (type.kind === "list") return `List[${typeOf(type.of, named)}]`;
  if (type.kind === "map") return `Dict[str, ${typeOf(type.of, named)}]`;
  if (type.kind === "either") return eitherOf(type.types, named);
  return PLAIN[type.kind];
}

const PLAIN = {
  string: "str",
  integer: "int",
  number: "float",
  boolean: "bool",
  null: "None",
  file: "Recording",
  anything: "object",
} as const;

function eitherOf(types: readonly ModelType[], named: (name: string) => string): string {
  const others = types.filter(({ kind }) => kind !== "null").map((each) => typeOf(each, named));
  const joined = others.length === 1 ? (others[0] ?? "") : `Union[${others.join(", ")}]`;
  return others.length === types.length ? joined : `Optional[${joined}]`;
}

const literalOf = (word: string | boolean) =>
  typeof word === "string" ? JSON.stringify(word) : word ? "True" : "False";

function classOf(operations: readonly ModelOperation[]): string {
  const methods = operations.flatMap((operation) => [
    methodOf(operation),
    ...(operation.texts.length > 0 ? [textMethodOf(operation)] : []),
    ...(operation.pageOf ? [iterationOf(operation, operation.pageOf)] : []),
  ]);
  return `${HEAD}
# mypy: disable-error-code="no-any-return"
${FUTURE}

from typing import Any, BinaryIO, Dict, Iterator, List, Literal, Optional, Union

from . import types
from .pages import pages
from .recordings import Recording
from .transport import segment


class Operations:
    """One method for each operation of the interface. \`Shruti\` adds how requests are sent."""

    def _call(self, method: str, path: str, **request: Any) -> Any:
        raise NotImplementedError

${methods.join("\n\n")}
`;
}

type Method = {
  name: string;
  description: string;
  answer: string;
  /** Before the star. */
  positional: readonly string[];
  /** Behind it, the needed ones first. */
  keywords: readonly string[];
  body: string;
};

const OPTIONS = ["timeout: Optional[float] = None", "max_retries: Optional[int] = None"];

const inTypes = (name: string) => `types.${name}`;

function argumentsOf(operation: ModelOperation, leftOut: readonly string[] = []) {
  const { method, path, pathParameters, body, query, takesKey } = operation;
  const given = [...(body?.fields ?? []), ...query].filter(({ name }) => !leftOut.includes(name));
  const sorted = [...given.filter(isNeeded), ...given.filter((field) => !isNeeded(field))];
  const keywords = sorted.map(({ name, type, isRequired }) => {
    const annotation = typeOf(type, inTypes);
    return isRequired ? `${name}: ${annotation}` : `${name}: Optional[${annotation}] = None`;
  });
  const address = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => `{segment(${name})}`);
  const dictionary = (fields: readonly ModelField[]) =>
    `{${fields.map(({ name }) => `${JSON.stringify(name)}: ${name}`).join(", ")}}`;
  const request = [
    JSON.stringify(method),
    `${pathParameters.length > 0 ? "f" : ""}${JSON.stringify(address)}`,
    ...(body ? [`${body.kind}=${dictionary(body.fields)}`] : []),
    ...(query.length > 0 ? [`query=${dictionary(query)}`] : []),
    ...(takesKey ? ["takes_key=True", "idempotency_key=idempotency_key"] : []),
    "timeout=timeout",
    "max_retries=max_retries",
  ];
  const options = [...(takesKey ? ["idempotency_key: Optional[str] = None"] : []), ...OPTIONS];
  const positional = pathParameters.map((name) => `${name}: str`);
  return { positional, keywords: [...keywords, ...options], request };
}

function methodOf(operation: ModelOperation): string {
  const isFile = operation.answer === "bytes";
  // That is what the other method is for.
  const leftOut = operation.texts.length > 0 ? ["format"] : [];
  const { positional, keywords, request } = argumentsOf(without(operation, leftOut));
  const answer = operation.answer === "bytes" ? "BinaryIO" : typeOf(operation.answer, inTypes);
  return methodText({
    ...{ name: snake(operation.id), description: operation.description, answer, positional, keywords },
    body: callText("return self._call", isFile ? [...request, 'answer="stream"'] : request),
  });
}

/** Writes the method for an answer that is text, such as subtitles. */
function textMethodOf(operation: ModelOperation): string {
  const format = operation.query.find(({ name }) => name === "format");
  const { positional, keywords, request } = argumentsOf(operation, ["format"]);
  const own =
    format?.type.kind === "words"
      ? `format: ${typeOf({ kind: "words", words: format.type.words.filter((word) => word !== "json") })}`
      : `media_type: ${typeOf({ kind: "words", words: operation.texts })}`;
  const members = [...request, ...(format ? [] : ["media_type=media_type"]), 'answer="text"'];
  const name = `${snake(operation.id)}_text`;
  const description = `${operation.description.split("\n\n")[0]} The answer is text in the form that is asked for.`;
  return methodText({
    ...{ name, description, answer: "str", positional, keywords: [own, ...keywords] },
    body: callText("return self._call", members),
  });
}

function iterationOf(operation: ModelOperation, element: ModelType): string {
  const { positional, keywords } = argumentsOf(operation);
  const names = operation.query.map(({ name }) => name).filter((name) => name !== "after");
  const passed = [...names, "timeout", "max_retries"].map((name) => `${name}=${name}`);
  return methodText({
    name: snake(operation.id).replace(/^(list|get)_/, "iterate_"),
    description: `Like \`${snake(operation.id)}\`, one element after the other, with the pages behind the first one.`,
    answer: `Iterator[${typeOf(element, inTypes)}]`,
    ...{ positional, keywords },
    body: `        return pages(\n            first=after,\n            ask=lambda after: self.${snake(operation.id)}(after=after, ${passed.join(", ")}),\n        )`,
  });
}

function without(operation: ModelOperation, names: readonly string[]): ModelOperation {
  return { ...operation, query: operation.query.filter(({ name }) => !names.includes(name)) };
}

function methodText({ name, description, answer, positional, keywords, body }: Method): string {
  const parameters = ["self", ...positional, "*", ...keywords].map((each) => `        ${each},`);
  const doc = docstring(description, "        ");
  return `    def ${name}(\n${parameters.join("\n")}\n    ) -> ${answer}:\n${doc}\n${body}`;
}

function callText(call: string, members: readonly string[]): string {
  const line = `        ${call}(${members.join(", ")})`;
  if (line.length <= WORDS_PER_LINE) return line;
  return `        ${call}(\n${members.map((each) => `            ${each},`).join("\n")}\n        )`;
}

function docstring(description: string, indent: string): string {
  const lines = description.replaceAll("\\", "\\\\").replaceAll('"""', "'''").split("\n");
  // A quote at the end would be a part of the closing ones.
  const text = lines.map((line, at) => (at === 0 ? line : `${indent}${line}`.trimEnd())).join("\n");
  const end = lines.length > 1 || text.endsWith('"') ? `\n${indent}` : "";
  return `${indent}"""${text}${end}"""`;
}

const KEYWORDS = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(
    " ",
  ),
);
const isName = (name: string) => /^[A-Za-z_]\w*$/.test(name) && !KEYWORDS.has(name);

/** Writes `createAudioLink` as `create_audio_link`. */
const snake = (id: string) => id.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
