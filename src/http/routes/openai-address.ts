import type { Config } from "../../config/schema.ts";
import { AppError, type ErrorCode } from "../../domain/errors.ts";
import { PARAMETERS } from "../openai/parameters.ts";
import { AudioForm } from "../wire/schemas.ts";

/** Fields that clients of OpenAI's API send and the strict form does not have, without brackets. */
const FOREIGN_FIELDS = new Set([...PARAMETERS].filter((name) => !Object.hasOwn(AudioForm.properties, name)));
/** Codes of requests that the strict form refuses, and OpenAI's would not have to. */
const CODES = new Set<ErrorCode>(["unknown_parameter", "invalid_request", "capability_unavailable"]);

/**
 * Adds to the refusal of a form that clients of OpenAI's API send, with the address that serves them. Their users have
 * left out `/openai`: the address of the strict interface looks right to them, because its list of models works.
 *
 * @param names fields of the form
 */
export async function namingOpenAiAddress<T>(
  { openai }: Config,
  names: readonly string[],
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof AppError) || !CODES.has(error.code) || !isForeign(error, names)) throw error;
    const remedy = openai.enabled
      ? "Programs that speak OpenAI's audio API use the base address /openai/v1, not /v1."
      : "Programs that speak OpenAI's audio API use the base address /openai/v1, once openai.enabled is set.";
    throw error.with({ message: `${error.message} ${remedy}` });
  }
}

/** OpenAI's clients always name a model, and often no language. */
function isForeign({ code, detail }: AppError, names: readonly string[]): boolean {
  if (names.some((name) => FOREIGN_FIELDS.has(name.replace(/\[.*$/, "")))) return true;
  if (code !== "invalid_request") return false;
  return (
    detail === "model" || (detail === "language" && names.includes("model") && !names.includes("language"))
  );
}
