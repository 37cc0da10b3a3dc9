import { ApiError } from "../testing/answers/api-client.ts";

/** Describes the refusal of a request: status, code and detail, or "accepted". */
export async function refusal(request: Promise<unknown>): Promise<string> {
  try {
    await request;
  } catch (error) {
    if (error instanceof ApiError) return [error.status, error.code, error.detail].join(" ").trim();
    throw error;
  }
  return "accepted";
}
