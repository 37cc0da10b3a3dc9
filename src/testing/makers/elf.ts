import { spawnSync } from "bun";

/** Reads libraries with binutils, which the build needs as well. */
function output(...command: string[]): string {
  const { exitCode, stdout, stderr } = spawnSync(command, { stdout: "pipe", stderr: "pipe" });
  if (exitCode !== 0) throw new Error(`${command.join(" ")}: ${stderr}`);
  return stdout.toString();
}

/**
 * Converts an address of a library to an offset in its file.
 *
 * @throws Error for an address outside all loaded segments
 */
export function fileOffset(library: string, address: number): number {
  for (const line of output("readelf", "-lW", library).split("\n")) {
    const [kind, offset, start, , bytes] = line.trim().split(/\s+/);
    if (kind !== "LOAD" || Number(start) > address || address >= Number(start) + Number(bytes)) continue;
    return Number(offset) + address - Number(start);
  }
  throw new Error(`${library} has no address 0x${address.toString(16)}`);
}

/** Returns the offset at which the code of an exported function begins in a library's file. */
export function functionOffset(library: string, name: string): number {
  const symbol = output("objdump", "-T", library)
    .split("\n")
    .find((line) => line.endsWith(` ${name}`) && line.includes(".text"));
  if (symbol === undefined) throw new Error(`${library} exports no ${name}`);
  return fileOffset(library, Number.parseInt(symbol, 16));
}

/** Disassembles a library, one instruction in each line. */
export function disassemble(library: string): string[] {
  return output("objdump", "-d", "--no-show-raw-insn", library).split("\n");
}
