import { Kind, type Static, type TObject, type TSchema, Type } from "@sinclair/typebox";
import { Value, type ValueError, ValueErrorType } from "@sinclair/typebox/value";
import { AppError } from "../../domain/errors.ts";

/**
 * Checks a value against a schema whose objects are all closed.
 *
 * @returns the same value, typed
 * @throws AppError `unknown_parameter` for a field that the schema does not know, at any depth and before
 *   every other fault; `invalid_request` with the dotted name of the first faulty field
 */
export function validate<T extends TSchema>(schema: T, value: unknown): Static<T> {
  refuseUnknown(schema, value);
  return validateKnown(schema, value);
}

/** Checks a value whose fields `refuseUnknown` has let pass, as `validate` does. @throws AppError `invalid_request` */
export function validateKnown<T extends TSchema>(schema: T, value: unknown): Static<T> {
  const fault = Value.Errors(schema, value).First();
  if (fault) throw invalid(exactFault(fault));
  return value as Static<T>;
}

/**
 * @param withheld fields of the schema that the config does not switch on, by their dotted names
 * @throws AppError `unknown_parameter`
 */
export function refuseUnknown(schema: TSchema, value: unknown, withheld: readonly string[] = []): void {
  const known = without(schema, withheld);
  const unknown = unknownFieldOf([known], value, "");
  if (unknown === undefined) return;
  const detail = unknown === "" ? "(empty)" : printable(unknown);
  throw new AppError("unknown_parameter", {
    detail,
    message: `There is no parameter ${detail}.`,
  });
}

/** Returns an object schema without some of its fields, which are given by their dotted names. */
function without(schema: TSchema, names: readonly string[]): TSchema {
  if (names.length === 0) return schema;
  const own = names.filter((name) => !name.includes("."));
  const rest = Type.Omit(schema as TObject, own);
  const inner = Object.entries(rest.properties as Record<string, TSchema>).map(([field, value]) => {
    const deeper = names
      .filter((name) => name.startsWith(`${field}.`))
      .map((name) => name.slice(field.length + 1));
    return [field, without(value, deeper)] as const;
  });
  return { ...rest, properties: Object.fromEntries(inner) };
}

/** The dotted name of the first field that none of the schemas (the branches of a union) knows. */
function unknownFieldOf(schemas: readonly TSchema[], value: unknown, path: string): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const branches = schemas.flatMap(branchesOf);
  if (Array.isArray(value)) {
    const items = branches.flatMap(({ items }) => (items ? [items as TSchema] : [])).flatMap(branchesOf);
    // A list of plain values may be very long, and nothing in it can have fields.
    if (!items.some((schema) => schema[Kind] === "Object" || schema[Kind] === "Array")) return undefined;
    return firstOf(value.entries(), ([index, item]) =>
      unknownFieldOf(items, item, joined(path, String(index))),
    );
  }
  const objects = branches.filter((schema): schema is TObject => schema[Kind] === "Object");
  // A value that should not be an object at all has the wrong type rather than unknown fields.
  if (objects.length === 0) return undefined;
  return firstOf(Object.entries(value), ([name, inner]) => {
    const known = objects.flatMap(({ properties }) =>
      Object.hasOwn(properties, name) && properties[name] ? [properties[name]] : [],
    );
    return known.length === 0 ? joined(path, name) : unknownFieldOf(known, inner, joined(path, name));
  });
}

function branchesOf(schema: TSchema): TSchema[] {
  return schema[Kind] === "Union" ? (schema.anyOf as TSchema[]).flatMap(branchesOf) : [schema];
}

function firstOf<T>(items: Iterable<T>, find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

/**
 * A union only says that none of its branches fits. Where exactly one branch has every field of an object, what is
 * wrong with that branch is what the client wants to know.
 */
function exactFault(fault: ValueError): ValueError {
  const { type, schema, value, path } = fault;
  if (type !== ValueErrorType.Union || typeof value !== "object" || value === null) return fault;
  const names = Object.keys(value);
  if (names.length === 0) return fault;
  const branches = branchesOf(schema).filter(
    (branch) => branch[Kind] === "Object" && names.every((name) => Object.hasOwn(branch.properties, name)),
  );
  const [branch] = branches;
  const inner = branch && branches.length === 1 ? Value.Errors(branch, value).First() : undefined;
  return inner ? { ...inner, path: path + inner.path } : fault;
}

function invalid(fault: ValueError): AppError {
  const detail = printable(dotted(fault.path));
  const name = detail === "" ? "The body" : detail;
  return new AppError("invalid_request", {
    message: `${name} ${wordsFor(fault)}.`,
    ...(detail === "" ? {} : { detail }),
  });
}

function wordsFor({ type, schema }: ValueError): string {
  switch (type) {
    case ValueErrorType.ObjectRequiredProperty:
      return "is required";
    case ValueErrorType.IntegerMinimum:
      return `must be at least ${schema.minimum}`;
    case ValueErrorType.IntegerMaximum:
      return `must be at most ${schema.maximum}`;
    case ValueErrorType.StringMinLength:
    case ValueErrorType.StringMaxLength:
      if (schema.maxLength === undefined) return "must not be empty";
      return `must have ${schema.minLength ?? 0} to ${schema.maxLength} characters`;
    case ValueErrorType.StringPattern:
      return `must match ${schema.pattern}`;
    case ValueErrorType.ArrayMaxItems:
      return `must have at most ${schema.maxItems} ${schema.maxItems === 1 ? "value" : "values"}`;
    case ValueErrorType.ObjectMaxProperties:
      return `must have at most ${schema.maxProperties} names`;
    // Only of objects that name no fields: those of others are unknown parameters.
    case ValueErrorType.ObjectAdditionalProperties:
      return `is not a name: it must match ${Object.keys(schema.patternProperties ?? {})[0]}`;
    case ValueErrorType.ArrayUniqueItems:
      return "must not have a value twice";
    default:
      return `must be ${wordsForSchema(schema)}`;
  }
}

function wordsForSchema(schema: TSchema): string {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema[Kind] === "Union") {
    const words = (schema.anyOf as TSchema[]).map(wordsForSchema);
    return [words.slice(0, -1).join(", "), ...words.slice(-1)].filter((each) => each !== "").join(" or ");
  }
  switch (schema.type) {
    case "integer":
      return "a whole number";
    case "object": {
      const { properties = {}, required = [] } = schema as Partial<TObject>;
      const names = Object.keys(properties);
      if (names.length === 0) return "an object with texts by names";
      // Without a field that must be there, one of them must.
      return `an object with ${names.join(required.length > 0 ? " and " : " or ")}`;
    }
    case "array":
      return `a list; each of its values is ${wordsForSchema(schema.items as TSchema)}`;
    case "boolean":
      return "true or false";
    default:
      return `a ${String(schema.type)}`;
  }
}

/** A JSON pointer (RFC 6901) as a dotted name. */
function dotted(pointer: string): string {
  return pointer
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"))
    .join(".");
}

function joined(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}

/** Names come from the client: bounded, and without characters that could mislead a reader. */
function printable(name: string): string {
  const clean = name.replaceAll(/[\p{C}\p{Z}]/gu, "?");
  return clean.length > 200 ? `${clean.slice(0, 200)}…` : clean;
}
