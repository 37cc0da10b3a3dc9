import { join } from "node:path";
import { onProcessor, wordsIn } from "./shruti.ts";

/** Paths of the programs to compare with, their number of threads, and the only processor that they may use (left out: all). */
export type PeerOptions = { folder: string; model: string; threads: number; processor?: number };

/** Greedy, no second attempts, no text from earlier windows: the same settings as in the benchmark's manifests. */
const DECODING = ["-l", "en", "-bs", "1", "-bo", "1", "-nf", "-mc", "0", "-sns"];

/** Time in all, and of loading; processor time in all; most memory; words written. */
export type CliRun = { wallMs: number; loadMs: number; cpuMs: number; memoryMb: number; words: number };

/** Runs whisper-cli on one file. */
export async function runWhisperCli(options: PeerOptions, wav: string): Promise<CliRun> {
  const { folder, model, threads, processor } = options;
  const startedMs = performance.now();
  const program = [...onProcessor(processor), join(folder, "whisper-cli")];
  const child = Bun.spawn([...program, "-m", model, "-f", wav, "-t", String(threads), ...DECODING], {
    ...{ stdin: "ignore", stdout: "pipe", stderr: "pipe" },
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(`whisper-cli failed: ${errors.slice(-500)}`);
  const loadMs = Number(/load time =\s+([\d.]+) ms/.exec(errors)?.[1] ?? 0);
  const wallMs = performance.now() - startedMs;
  const used = child.resourceUsage();
  const text = output.replaceAll(/^\[.*?\]/gm, "");
  return {
    ...{ wallMs, loadMs, words: wordsIn(text) },
    cpuMs: Number(used?.cpuTime.total ?? 0n) / 1000,
    memoryMb: (used?.maxRSS ?? 0) / 2 ** 20,
  };
}

export type WhisperServer = {
  transcribe(wav: string): Promise<string>;
  stop(): Promise<void>;
};

/** Starts whisper-server and waits until it responds. */
export async function startWhisperServer(options: PeerOptions, port: number): Promise<WhisperServer> {
  const { folder, model, threads } = options;
  const command = [join(folder, "whisper-server"), "-m", model, "-t", String(threads), ...DECODING];
  const child = Bun.spawn([...command, "--host", "127.0.0.1", "--port", String(port)], {
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
  const baseUrl = `http://127.0.0.1:${port}`;
  for (let attempt = 0; ; attempt++) {
    const isUp = await fetch(baseUrl).then(
      () => true,
      () => false,
    );
    if (isUp) break;
    if (attempt > 300 || child.exitCode !== null) throw new Error("whisper-server did not start");
    await Bun.sleep(100);
  }
  return {
    async transcribe(wav) {
      const form = new FormData();
      form.append("file", Bun.file(wav), "audio.wav");
      form.append("response_format", "json");
      const response = await fetch(`${baseUrl}/inference`, { method: "POST", body: form });
      if (!response.ok) throw new Error(`whisper-server answered ${response.status}`);
      return ((await response.json()) as { text: string }).text;
    },
    async stop() {
      child.kill("SIGKILL");
      await child.exited;
    },
  };
}
