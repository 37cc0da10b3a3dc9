import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The page is observed for this time after it is complete, because it may then report its use, for example. */
const LINGER_MS = 1000;

/** Finds the browser of this machine. Returns undefined without one. */
export function findChromium(): string | undefined {
  return Bun.which("chromium") ?? Bun.which("chromium-browser") ?? Bun.which("google-chrome") ?? undefined;
}

/** The requests, text and errors of a page. */
export type Visit = {
  /** Every address that the page requested, refused requests included. */
  requests: string[];
  /** The visible text. */
  text: string;
  /** Errors on the console, uncaught exceptions, and violations of the page's policy. */
  errors: string[];
};

type Message = {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
};

/**
 * Opens a page in a headless browser of its own and waits until it shows something.
 *
 * @param isReady a JavaScript expression that is true once the page is complete
 */
export async function visitPage(browser: string, url: string, isReady: string): Promise<Visit> {
  const profile = mkdtempSync(join(tmpdir(), "shruti-chromium-"));
  const child = Bun.spawn(
    [
      browser,
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--no-first-run",
      "--disable-background-networking",
      "--remote-debugging-port=0",
      `--user-data-dir=${profile}`,
      "about:blank",
    ],
    { stdout: "ignore", stderr: "ignore" },
  );
  try {
    const page = await openPage(await debuggingPort(profile));
    try {
      return await watch(page, url, isReady);
    } finally {
      page.close();
    }
  } finally {
    child.kill("SIGKILL");
    await child.exited;
    rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}

async function debuggingPort(profile: string): Promise<number> {
  const path = join(profile, "DevToolsActivePort");
  await until(() => existsSync(path) && readFileSync(path, "utf8").includes("\n"));
  return Number(readFileSync(path, "utf8").split("\n")[0]);
}

type Page = {
  send(method: string, params?: Record<string, unknown>): Promise<Record<string, unknown>>;
  onEvent(listener: (method: string, params: Record<string, unknown>) => void): void;
  close(): void;
};

/** Connects to the browser's first page by the Chrome DevTools Protocol. */
async function openPage(port: number): Promise<Page> {
  const targets = (await (await fetch(`http://127.0.0.1:${port}/json/list`)).json()) as {
    type: string;
    webSocketDebuggerUrl: string;
  }[];
  const target = targets.find(({ type }) => type === "page");
  if (!target) throw new Error("the browser has no page");
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  const { promise: opened, resolve, reject } = Promise.withResolvers<void>();
  socket.onopen = () => resolve();
  socket.onerror = () => reject(new Error("the browser does not answer"));
  await opened;
  const answers = new Map<number, (result: Record<string, unknown>) => void>();
  let listener: (method: string, params: Record<string, unknown>) => void = () => undefined;
  let lastId = 0;
  socket.onmessage = ({ data }) => {
    const { id, method, params, result } = JSON.parse(String(data)) as Message;
    if (id !== undefined) answers.get(id)?.(result ?? {});
    else if (method !== undefined) listener(method, params ?? {});
  };
  return {
    send(method, params = {}) {
      const id = ++lastId;
      const { promise, resolve: answer } = Promise.withResolvers<Record<string, unknown>>();
      answers.set(id, answer);
      socket.send(JSON.stringify({ id, method, params }));
      return promise;
    },
    onEvent(next) {
      listener = next;
    },
    close: () => socket.close(),
  };
}

async function watch(page: Page, url: string, isReady: string): Promise<Visit> {
  const requests: string[] = [];
  const errors: string[] = [];
  page.onEvent((method, params) => {
    if (method === "Network.requestWillBeSent") requests.push((params.request as { url: string }).url);
    if (method === "Network.webSocketCreated") requests.push(String(params.url));
    if (method === "Runtime.exceptionThrown") errors.push(JSON.stringify(params.exceptionDetails));
    const entry = params.entry as { level: string; text: string } | undefined;
    if (method === "Log.entryAdded" && entry?.level === "error") errors.push(entry.text);
  });
  for (const domain of ["Network", "Runtime", "Log", "Page"]) await page.send(`${domain}.enable`);
  const evaluate = async (expression: string): Promise<unknown> => {
    const { result } = await page.send("Runtime.evaluate", { expression, returnByValue: true });
    return (result as { value?: unknown } | undefined)?.value;
  };
  await page.send("Page.navigate", { url });
  await until(async () => (await evaluate(isReady)) === true);
  await Bun.sleep(LINGER_MS);
  const text = String(await evaluate("document.body.innerText"));
  return { requests, text, errors };
}

async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!(await isTrue())) {
    if (Date.now() > deadline) throw new Error("the browser took longer than 30 s");
    await Bun.sleep(50);
  }
}
