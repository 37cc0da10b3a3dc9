import { ApiError } from "../testing/api-client.ts";

/** How a request was refused: status, code and detail; "accepted" when it was not. */
export async function refusal(request: Promise<unknown>): Promise<string> {
  try {
    await request;
  } catch (error) {
    if (error instanceof ApiError) return [error.status, error.code, error.detail].join(" ").trim();
    throw error;
  }
  return "accepted";
}
