/**
 * Runs a build tool to its end.
 *
 * @param command program and arguments
 * @param options folder to run in, and variables beside those of this process
 * @returns its standard output
 * @throws when it does not start or exits with another status than 0; the message ends with its last output
 */
export async function run(
  command: string[],
  options: { cwd?: string; env?: Record<string, string> } = {},
): Promise<string> {
  const child = Bun.spawn(command, {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: { ...process.env, ...options.env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [stdout, stderr, status] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (status !== 0) {
    const tail = `${stdout}\n${stderr}`.trim().split("\n").slice(-30).join("\n");
    throw new Error(`${command.slice(0, 3).join(" ")} … ended with status ${status}:\n${tail}`);
  }
  return stdout;
}
