import type { PunctuationFiles } from "../domain/model.ts";
import type { NativeFiles } from "../native/native-files.ts";
import { finishRun, loadOnnx, type TokenLabels } from "../native/onnx/onnx-addon.ts";
import type { WordMarks } from "./job.ts";
import type { PcsConfig } from "./pcs-config.ts";
import { readPcsFiles } from "./pcs-files.ts";
import type { Piece, SentencePieces } from "./sentencepiece.ts";

/** A loaded model of punctuation. */
export type Punctuator = {
  /**
   * @param words words that follow one another, without white space
   * @returns the marks of each of them
   * @throws the signal's reason when it is aborted; Error when the net fails or does not fit
   */
  punctuate(words: readonly string[], signal: AbortSignal): Promise<WordMarks[]>;
};

const THREADS = 1;
/** Tokens that two runs of the net share. Each run decides about half of them, as in the package `punctuators`. */
const OVERLAP = 16;
/** Tokens that begin and end what the net reads. */
const EDGES = 2;

/** A token of the text, the word that it is of, and its place there in characters; -1: the pieces are not the word's letters. */
type Token = Piece & { word: number; place: number; isFirst: boolean };

/**
 * Loads a model. Some files end the process, so this belongs in a worker process. The net runs once before this returns, so that
 * a net that does not fit is found.
 *
 * @throws Error with the reason why it cannot be used
 */
export async function openPunctuator(
  nativeFiles: Pick<NativeFiles, "dir" | "onnx" | "onnxruntime">,
  files: PunctuationFiles,
): Promise<Punctuator> {
  const { config, pieces, outputs } = readPcsFiles(files);
  const { addon } = loadOnnx(nativeFiles);
  const session = await addon.open(files.modelPath, THREADS, false);

  async function run(tokens: readonly Token[], signal: AbortSignal): Promise<Labels> {
    const ids = Int32Array.of(pieces.begin, ...tokens.map(({ id }) => id), pieces.end);
    const labels = await finishRun(addon, addon.runTokens(session, ids), signal);
    return { post: labelsOf(labels, outputs.post, 1), capitals: labelsOf(labels, outputs.capitals) };
  }

  const punctuator: Punctuator = {
    async punctuate(words, signal) {
      const tokens = tokensOf(words, pieces);
      const marks: WordMarks[] = words.map(() => ({}));
      const most = config.maxLength - EDGES;
      for (let from = 0; from < tokens.length; from += most - OVERLAP) {
        const part = tokens.slice(from, from + most);
        const isLast = from + most >= tokens.length;
        const labels = await run(part, signal);
        const first = from === 0 ? 0 : OVERLAP / 2;
        const behind = isLast ? part.length : part.length - OVERLAP / 2;
        for (let at = first; at < behind; at++) {
          const isLastOfWord = tokens[from + at + 1]?.word !== part[at]?.word;
          note(marks, part[at] as Token, { labels, at: at + 1, isLastOfWord, config });
        }
        if (isLast) break;
      }
      return marks;
    },
  };
  await punctuator.punctuate(["a"], new AbortController().signal);
  return punctuator;
}

type Labels = { post: TokenLabels; capitals: TokenLabels };

/** Notes what the net says of a token. Only the last token of a word can have a mark behind it. */
function note(
  marks: readonly WordMarks[],
  token: Token,
  {
    labels,
    at,
    isLastOfWord,
    config,
  }: { labels: Labels; at: number; isLastOfWord: boolean; config: PcsConfig },
): void {
  const mark = marks[token.word] as WordMarks;
  const after = labelAt(config.postLabels, labels.post.values[at]);
  if (isLastOfWord && after !== undefined) mark.after = after;
  if (token.place < 0) return;
  const { values, width } = labels.capitals;
  // The first piece of a word has the mark of a new word before its letters.
  const skipped = token.isFirst ? 1 : 0;
  const letters = [...token.text].length;
  for (let n = 0; n < letters && n + skipped < width; n++) {
    if (values[at * width + n + skipped] === 1) mark.capitals = [...(mark.capitals ?? []), token.place + n];
  }
}

function labelsOf(labels: readonly TokenLabels[], index: number, width?: number): TokenLabels {
  const found = labels[index];
  if (!found || (width !== undefined && found.width !== width))
    throw new Error("the net has other outputs than it says");
  return found;
}

function labelAt(labels: PcsConfig["postLabels"], number: number | undefined): string | undefined {
  if (number === undefined || number < 0 || number >= labels.length)
    throw new Error(`the net gives the label ${number}, and config.yaml has ${labels.length}`);
  return labels[number];
}

/** The net was trained with small letters. */
function tokensOf(words: readonly string[], pieces: SentencePieces): Token[] {
  return words.flatMap((word, index) => {
    const small = word.toLowerCase();
    const found = pieces.encode(small);
    const isWhole =
      found.map(({ text }) => text).join("") === small && [...small].length === [...word].length;
    let place = 0;
    return found.map((piece, at) => {
      const token = { ...piece, word: index, place: isWhole ? place : -1, isFirst: at === 0 };
      place += [...piece.text].length;
      return token;
    });
  });
}
