import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

type Json = Record<string, unknown>;
type Answer = {
  headers?: Record<string, { required?: boolean } | { $ref: string }>;
  content?: Record<string, { schema: Json }>;
};
export type Described = {
  paths: Record<string, Record<string, { responses: Record<string, Answer> }>>;
  components: Json;
};

/** A response to compare with the document. */
export type Seen = { method: string; path: string; status: number; headers: Headers; text: string };

/**
 * Compares responses with the OpenAPI document: status, media type, required header fields and body of a response must
 * be among those that its operation describes.
 *
 * @returns the fault of a response, or undefined where there is none or the document does not describe the path
 */
export function createDescriptionCheck(document: Described): (seen: Seen) => string | undefined {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addFormat("binary", true);
  ajv.addSchema(document as unknown as Json, "document");
  const validators = new Map<string, ValidateFunction>();
  const templates = Object.keys(document.paths).map((template) => ({
    template,
    form: new RegExp(`^${template.replaceAll(/\{\w+\}/g, "[^/]+")}$`),
  }));

  function validatorOf(pointer: string): ValidateFunction {
    const known = validators.get(pointer);
    if (known) return known;
    const made = ajv.compile({ $ref: `document#${pointer}` });
    validators.set(pointer, made);
    return made;
  }

  function faultOfBody(pointer: string, type: string, text: string): string | undefined {
    if (type !== "application/json") return undefined;
    const validator = validatorOf(`${pointer}/content/application~1json/schema`);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return "the body is no JSON";
    }
    if (validator(value)) return undefined;
    return validator.errors?.map(({ instancePath, message }) => `${instancePath} ${message}`).join("; ");
  }

  return ({ method, path, status, headers, text }) => {
    const template =
      document.paths[path] === undefined ? templates.find(({ form }) => form.test(path))?.template : path;
    if (template === undefined) return undefined;
    const verb =
      method.toLowerCase() === "head" && !document.paths[template]?.head ? "get" : method.toLowerCase();
    const operation = document.paths[template]?.[verb];
    if (!operation)
      return status === 405 || status === 401 || status === 204 ? undefined : `${method} is answered`;
    const code = [String(status), `${Math.floor(status / 100)}XX`].find((each) => operation.responses[each]);
    const answer = code === undefined ? undefined : operation.responses[code];
    if (code === undefined || !answer) return `${status} is not described`;
    const missing = Object.keys(answer.headers ?? {}).filter(
      (name) => ["x-request-id", "Retry-After", "Allow", "Location"].includes(name) && !headers.has(name),
    );
    if (missing.length > 0) return `${status} lacks ${missing.join(", ")}`;
    if (method === "HEAD" || text === "") return undefined;
    const type = (headers.get("content-type") ?? "").split(";")[0] ?? "";
    if (!answer.content?.[type]) return `${status} as ${type} is not described`;
    const escaped = template.replaceAll("~", "~0").replaceAll("/", "~1");
    return faultOfBody(`/paths/${encodeURIComponent(escaped)}/${verb}/responses/${code}`, type, text);
  };
}
