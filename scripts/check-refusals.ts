/**
 * Checks that clients see why a large request was refused: each refusal, size and client, directly and behind the
 * proxies that are installed (nginx, haproxy, caddy), configured as
 * docs/manual/network.md says.
 *
 *   bun scripts/check-refusals.ts [TRIES] [BYTES,BYTES…] [direct,nginx,haproxy,caddy]
 *
 * Prints a line for each refusal and size: how often each client read the right response, the other outcomes, and the peak
 * memory of the server. The exit status is 1 if any response was lost or wrong.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { install } from "../src/e2e/kit.ts";
import {
  REFUSAL_ENVIRONMENT,
  type RefusalCase,
  refusalCases,
  refusalClients,
} from "../src/e2e/refusal-clients/matrix.ts";

const [triesText = "20", sizesText = "51200,1000000,60000000", placesText = "direct,nginx,haproxy,caddy"] =
  process.argv.slice(2);
const tries = Number(triesText);
const sizes = sizesText.split(",").map(Number);

type Front = {
  command: string[];
  file: string;
  config: (port: number, target: string, folder: string) => string;
};
/** The configurations of docs/manual/network.md, with the other lines that a proxy needs to start. */
const FRONTS: Record<string, Front> = {
  nginx: {
    command: ["nginx", "-g", "daemon off;", "-c"],
    file: "nginx.conf",
    config: (port, target, folder) => `
      pid ${folder}/nginx.pid;
      error_log ${folder}/nginx.log;
      events {}
      http {
        access_log off;
        client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
        fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
        server {
          listen 127.0.0.1:${port};
          client_max_body_size 0;
          location / {
            proxy_pass http://${target};
            proxy_http_version 1.1;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_request_buffering off;
            proxy_read_timeout 150s;
          }
        }
      }`,
  },
  haproxy: {
    command: ["haproxy", "-q", "-f"],
    file: "haproxy.cfg",
    config: (port, target) => `
defaults
  mode http
  timeout connect 5s
  timeout client 150s
  timeout server 150s
  option forwardfor
frontend front
  bind 127.0.0.1:${port}
  default_backend shruti
backend shruti
  server shruti ${target}
`,
  },
  caddy: {
    command: ["caddy", "run", "--adapter", "caddyfile", "--config"],
    file: "Caddyfile",
    config: (port, target) => `
{
  admin off
  auto_https off
}
http://127.0.0.1:${port} {
  reverse_proxy ${target}
}
`,
  },
};

function freePort(): number {
  const server = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const { port } = server;
  server.stop(true);
  return port;
}

const folder = mkdtempSync(join(tmpdir(), "shruti-refusals-"));
const installation = await install({ environment: REFUSAL_ENVIRONMENT });
const children: Bun.Subprocess[] = [];
let failed = 0;
let checked = 0;
try {
  const server = await (await installation.serve()).ready();
  const target = new URL(server.baseUrl).host;
  const cases = await refusalCases(installation, server);
  const { clients, missing } = refusalClients();
  if (missing.length > 0) console.warn(`not on this machine: ${missing.join(", ")}`);
  for (const place of placesText.split(",")) {
    const baseUrl = await front(place, target);
    if (baseUrl === undefined) continue;
    for (const refusal of cases) await check(place, baseUrl, refusal);
  }
  console.log(`${checked} combinations of ${tries} tries, ${failed} not always answered`);
  await server.stop();

  async function check(place: string, baseUrl: string, refusal: RefusalCase): Promise<void> {
    for (const bytes of sizes.filter((size) => size >= refusal.minBytes)) {
      const cells: string[] = [];
      forgetMostMemory(server.pid);
      for (const client of clients.filter((each) => each.canSend(refusal))) {
        const seen = await client.send(baseUrl, refusal, bytes, tries);
        const right = seen[refusal.expected] ?? 0;
        checked += 1;
        if (right !== tries) failed += 1;
        cells.push(`${client.name} ${right === tries ? right : JSON.stringify(seen)}`);
      }
      cells.push(`${await mostMemory(server.pid)} MiB`);
      console.log(`${place} | ${refusal.name} | ${bytes} | ${cells.join(" | ")}`);
    }
  }
} finally {
  for (const child of children) child.kill();
  await Promise.all(children.map((child) => child.exited));
  await installation.remove();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed === 0 ? 0 : 1);

async function front(place: string, target: string): Promise<string | undefined> {
  if (place === "direct") return `http://${target}`;
  const found = FRONTS[place];
  const program = found && Bun.which(found.command[0] ?? "", { PATH: `${process.env.PATH}:/usr/sbin` });
  if (!found || !program) {
    console.warn(`not on this machine: ${place}`);
    return undefined;
  }
  const port = freePort();
  const path = join(folder, found.file);
  writeFileSync(path, found.config(port, target, folder));
  children.push(
    Bun.spawn([program, ...found.command.slice(1), path], {
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
      env: { ...process.env, HOME: folder },
    }),
  );
  const baseUrl = `http://127.0.0.1:${port}`;
  for (let n = 0; n < 200; n += 1) {
    if (
      await fetch(`${baseUrl}/healthz`).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      return baseUrl;
    await Bun.sleep(50);
  }
  throw new Error(`${place} does not answer`);
}

/** Returns the peak memory of a process since the last `forgetMostMemory`, in MiB. */
async function mostMemory(pid: number): Promise<number> {
  const kib = /VmHWM:\s+(\d+)/.exec(await Bun.file(`/proc/${pid}/status`).text())?.[1];
  return Math.round(Number(kib) / 1024);
}

function forgetMostMemory(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}
