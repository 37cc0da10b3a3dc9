/** The languages whose numbers can be written. Their tables are large, and are loaded when one is asked for. */
export const WRITTEN_LANGUAGES: ReadonlySet<string> = new Set([
  ...["as", "bn", "brx", "doi", "en", "gu", "hi", "kn", "kok", "ks", "mai", "ml"],
  ...["mni", "mr", "ne", "or", "pa", "sa", "sat", "sd", "ta", "te", "ur"],
]);
