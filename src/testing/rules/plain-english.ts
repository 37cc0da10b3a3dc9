/** Words that docs/glossary.md advises against, "English". */
const RIDDLES =
  /\b(?:whoever|nobody|somebody|anew|rooms?|(?:is|are|be|was) told|tells (?:whether|what|that|how)|stands? (?:in|at|on|for)|goes on|(?<!there )is no (?!longer|more))\b/gi;

/** Returns the words of a text that the glossary advises against. */
export function riddlesIn(text: string): string[] {
  return [...text.replaceAll(/\s+/g, " ").matchAll(RIDDLES)].map(([words]) => words);
}

/** Matches a docstring that begins with words that need the name below it: a fragment, not a sentence. */
const FRAGMENT = /\/\*\*(?:\s|\*(?!\/))*((?:Of|Those|From|After)\b[^\n*]*)/g;

/** Returns the docstrings of a TypeScript file that do not begin with a verb or a noun phrase. */
export function fragmentsIn(source: string): string[] {
  return [...source.matchAll(FRAGMENT)].map(([, words = ""]) => words.trim());
}

/**
 * Returns the comments of a source file, and the names of its tests. Lines of one comment are joined.
 *
 * @param path decides which marks begin a comment
 */
export function proseOf(path: string, source: string): string[] {
  if (/\.(?:py|sh|cmake|toml)$/.test(path)) {
    const comments = source.matchAll(/(?:^|\s)# ?(.*)$/gm);
    const docstrings = path.endsWith(".py") ? source.matchAll(/"""(.*?)"""/gs) : [];
    return [...comments, ...docstrings].map(([, text = ""]) => text);
  }
  const blocks = [...source.matchAll(/\/\*(.*?)\*\//gs)].map(([, text = ""]) =>
    text.replaceAll(/\n\s*\*/g, " "),
  );
  const lines = [...source.matchAll(/(?:^|\s)\/\/ (.*)$/gm)].map(([, text = ""]) => text);
  const names = [
    ...source.matchAll(/\b(?:test|describe)(?:\.\w+[^\n]*?\))?\(\s*(?:"([^"\n]*)"|`([^`\n]*)`)/g),
  ].map(([, plain, template]) => plain ?? template ?? "");
  return [...blocks, ...lines, ...names];
}
