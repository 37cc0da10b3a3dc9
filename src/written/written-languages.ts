/** The languages whose numbers can be written. Their tables are large, and are loaded when one is asked for. */
export const WRITTEN_LANGUAGES: ReadonlySet<string> = new Set([
  ...["as", "bn", "en", "gu", "hi", "kn", "mai", "ml", "mr", "ne", "or", "pa", "ta", "te", "ur"],
]);
