import { type AST, ParseError, parseTOML, traverseNodes } from "toml-eslint-parser";

/**
 * A server reads its config and descriptions of models in the thread that answers requests. The library takes a few
 * microseconds for each mark, so these bounds keep it at 50 ms. `config defaults` has 400 marks, and the description of an
 * IndicConformer with 370 files 5,700.
 */
const MAX_MARKS = 8_000;
const MAX_DEPTH = 32;
/** What TOML's structure is written with. Each line has one more, its end. */
const MARK = /[=,[\]{}.#]/g;

/** A text that is not valid TOML. The message is about `line`. */
export class TomlError extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.name = "TomlError";
    this.line = line;
  }
}

/**
 * Parses TOML. It refuses a key `__proto__` at each depth, because the library's conversion to values would write its
 * fields into the prototype of all objects. It also refuses more keys, values and tables than any file of Shruti has, and
 * more than 32 levels.
 *
 * @throws TomlError
 */
export function readToml(source: string): AST.TOMLProgram {
  refuseTooMuch(source);
  const program = parsed(source);
  let depth = 0;
  traverseNodes(program, {
    enterNode(node) {
      const { line } = node.loc.start;
      const name = node.type === "TOMLBare" ? node.name : node.type === "TOMLQuoted" ? node.value : undefined;
      if (name === "__proto__") throw new TomlError(line, "__proto__ is unknown");
      if (isNested(node)) depth += 1;
      if (depth > MAX_DEPTH) throw new TomlError(line, TOO_DEEP);
    },
    leaveNode(node) {
      if (isNested(node)) depth -= 1;
    },
  });
  return program;
}

const TOO_DEEP = `it nests deeper than ${MAX_DEPTH} levels`;
const isNested = ({ type }: AST.TOMLNode) => type === "TOMLArray" || type === "TOMLInlineTable";

function refuseTooMuch(source: string): void {
  let marks = 0;
  for (const [index, line] of source.split("\n").entries()) {
    const isComment = line.trimStart().startsWith("#");
    marks += 1 + (isComment ? 0 : (line.match(MARK)?.length ?? 0));
    if (marks > MAX_MARKS) throw new TomlError(index + 1, "the file has more than any of its kind needs");
  }
}

function parsed(source: string): AST.TOMLProgram {
  try {
    return parseTOML(source);
  } catch (error) {
    if (error instanceof ParseError) throw new TomlError(error.lineNumber, error.message);
    // The parser calls itself for each level.
    if (error instanceof RangeError) throw new TomlError(1, TOO_DEEP);
    throw error;
  }
}
