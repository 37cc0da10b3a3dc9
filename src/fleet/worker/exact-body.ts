export type ExactBody = {
  bytes: number;
  /** Makes the error for a body that has more. */
  tooMuch: () => Error;
  /** Called when something has arrived. */
  onBlock?: () => void;
};

/**
 * Reads a body that has exactly so many bytes.
 *
 * @throws what `tooMuch` makes; Error when there are fewer, which another try may mend
 */
export async function readExactBody(
  response: Response,
  { bytes, tooMuch, onBlock }: ExactBody,
): Promise<Uint8Array> {
  const content = new Uint8Array(bytes);
  let filled = 0;
  for await (const block of response.body ?? []) {
    if (filled + block.length > bytes) throw tooMuch();
    onBlock?.();
    content.set(block, filled);
    filled += block.length;
  }
  if (filled < bytes) throw new Error("the connection ended too early");
  return content;
}
