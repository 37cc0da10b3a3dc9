import { type AST, ParseError, parseTOML, traverseNodes } from "toml-eslint-parser";

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
 * fields into the prototype of all objects.
 *
 * @throws TomlError
 */
export function readToml(source: string): AST.TOMLProgram {
  const program = parsed(source);
  traverseNodes(program, {
    enterNode(node) {
      const name = node.type === "TOMLBare" ? node.name : node.type === "TOMLQuoted" ? node.value : undefined;
      if (name === "__proto__") throw new TomlError(node.loc.start.line, "__proto__ is unknown");
    },
    leaveNode() {},
  });
  return program;
}

function parsed(source: string): AST.TOMLProgram {
  try {
    return parseTOML(source);
  } catch (error) {
    if (error instanceof ParseError) throw new TomlError(error.lineNumber, error.message);
    throw error;
  }
}
