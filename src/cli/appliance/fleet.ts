import type { Command } from "commander";
import type { Config } from "../../config/schema.ts";
import type { Act } from "../../domain/audit.ts";
import type { WorkerStatus } from "../../fleet/control/fleet-status.ts";
import { actAs } from "../../lib/rights.ts";
import { readServerStatus } from "../../server/status-file.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { counted } from "../frame/output.ts";

type InitOptions = { nats: string[]; baseUrl: string; name: string; natsFolder?: string; json?: true };
type AddOptions = { output?: string; json?: true };
type DrainOptions = { undo?: true; json?: true };

/** `shruti fleet`: the machines that recognize for this one. */
export function registerFleet(program: Command, context: CliContext): void {
  const fleet = program.command("fleet").description("Machines that recognize for this one.");

  fleet
    .command("init")
    .description("make the keys and certificates of a fleet, and the configuration of its messaging server")
    .requiredOption("--nats <addresses...>", "of the messaging server, such as tls://nats.example:4222")
    .requiredOption(
      "--base-url <address>",
      "at which workers reach this machine, such as https://shruti.example:8443",
    )
    .option("--name <name>", "of the fleet", "main")
    .option("--nats-folder <path>", "of the messaging server's files on its machine; default: here")
    .option("--json", "print JSON")
    .action((options: InitOptions) => init(context, options));

  fleet
    .command("add")
    .description("add a worker, and write the files for its machine into a new folder")
    .argument("<name>", "small letters, digits and hyphens")
    .option("--output <folder>", "for the worker's files; default: its name")
    .option("--json", "print JSON")
    .action((name: string, options: AddOptions) => add(context, name, options));

  fleet
    .command("remove")
    .description("withdraw a worker's key; its chunks run elsewhere")
    .argument("<name>", "of the worker")
    .option("--json", "print JSON")
    .action((name: string, options: { json?: true }) => remove(context, name, options));

  fleet
    .command("list")
    .description("list the workers, and what they do while the server runs")
    .option("--json", "print JSON")
    .action((options: { json?: true }) => list(context, options));

  fleet
    .command("drain")
    .description("let a worker finish its chunks and take no more, such as before an upgrade")
    .argument("<name>", "of the worker")
    .option("--undo", "let it take work again")
    .option("--json", "print JSON")
    .action((name: string, options: DrainOptions) => drain(context, name, options));
}

const setup = () => import("../../fleet/setup/fleet-setup.ts");

async function dataDirFor(context: CliContext): Promise<{ config: Config; dataDir: string }> {
  const { config } = context.loadConfig();
  const [{ dataDirOf }, { ownerOfData }] = await Promise.all([
    import("../../services/data-dir.ts"),
    import("../../services/data-owner.ts"),
  ]);
  const dataDir = dataDirOf(config);
  // Nothing that the service's user has put there may lead to root's files.
  actAs(ownerOfData(dataDir));
  return { config, dataDir };
}

async function init(context: CliContext, options: InitOptions): Promise<void> {
  const { nats, baseUrl, name } = options;
  const problem = problemOfPlan(options);
  if (problem !== undefined) throw new CommandError("usage", problem);
  const { dataDir } = await dataDirFor(context);
  const { initFleet, natsFolderOf } = await setup();
  const folder = natsFolderOf(dataDir);
  await initFleet(dataDir, { name, nats, baseUrl, natsFolder: options.natsFolder ?? folder });
  await record(context, { action: "fleet_keys.create", object: name });
  if (options.json) return context.printJson({ name, nats, base_url: baseUrl, nats_folder: folder });
  context.note(
    options.natsFolder === undefined
      ? `Start the messaging server: nats-server -c ${folder}/nats.conf`
      : `Copy ${folder} to ${options.natsFolder} on the messaging server's machine, and start nats-server -c ${options.natsFolder}/nats.conf there.`,
  );
  context.note("Add these lines to the config file, and restart the server:");
  context.printLine(`[fleet]\nnats = ${JSON.stringify(nats)}\nname = "${name}"\nbase_url = "${baseUrl}"`);
  context.printLine(`listen = "0.0.0.0:${new URL(baseUrl).port || "443"}"`);
}

function problemOfPlan({ nats, baseUrl, name }: InitOptions): string | undefined {
  const isAddress = (text: string, protocol: string) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    return (
      url?.protocol === protocol && url.hostname !== "" && /^\/?$/.test(url.pathname) && !text.endsWith("/")
    );
  };
  const wrong = nats.find((address) => !isAddress(address, "tls:"));
  if (wrong !== undefined) return `--nats ${wrong} does not have the form tls://host:port`;
  if (!isAddress(baseUrl, "https:")) return `--base-url ${baseUrl} does not have the form https://host:port`;
  if (!/^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/.test(name)) {
    return `--name ${name} may have small letters, digits and hyphens, 32 at most`;
  }
  return undefined;
}

async function add(context: CliContext, name: string, { output, json }: AddOptions): Promise<void> {
  const { dataDir } = await dataDirFor(context);
  const { addWorker, workerFolder } = await setup();
  const files = await addWorker(dataDir, name, workerFolder(name, output), context.clock.now());
  await record(context, { action: "fleet_worker.add", object: name });
  const isReloaded = await reload(dataDir);
  if (json) return context.printJson({ name, ...files, reloaded: isReloaded });
  context.printLine(`${files.folder}: config, key and authority of the worker ${name}`);
  noteReload(context, isReloaded);
  context.note(`Copy ${files.folder} to the worker's machine. There, in that folder: shruti worker`);
  context.note("worker.key is a secret: it is on no other machine.");
}

async function remove(context: CliContext, name: string, { json }: { json?: true }): Promise<void> {
  const { dataDir } = await dataDirFor(context);
  await (await setup()).removeWorker(dataDir, name);
  await record(context, { action: "fleet_worker.remove", object: name });
  const isReloaded = await reload(dataDir);
  if (json) return context.printJson({ name, removed: true, reloaded: isReloaded });
  context.printLine(`${name} is removed: its messages do not count any more`);
  noteReload(context, isReloaded);
}

async function drain(context: CliContext, name: string, { undo, json }: DrainOptions): Promise<void> {
  const { dataDir } = await dataDirFor(context);
  const hasChanged = await (await setup()).drainWorker(dataDir, name, !undo);
  const action = undo ? "fleet_worker.resume" : "fleet_worker.drain";
  if (hasChanged) await record(context, { action, object: name });
  if (json) context.printJson({ name, draining: !undo });
  else context.printLine(undo ? `${name} takes work again` : `${name} takes no more work`);
}

/** Records an act that has changed only files. */
async function record(context: CliContext, act: Act): Promise<void> {
  (await context.openServices()).record(act);
}

async function reload(dataDir: string): Promise<boolean> {
  const [{ reloadNats }, { natsFolderOf }] = await Promise.all([
    import("../../fleet/setup/reload.ts"),
    setup(),
  ]);
  return reloadNats(natsFolderOf(dataDir));
}

function noteReload(context: CliContext, isReloaded: boolean): void {
  context.note(
    isReloaded
      ? "The messaging server has been asked to read its configuration again."
      : "Copy nats.conf to the messaging server if it runs elsewhere, and reload it: nats-server --signal reload",
  );
}

async function list(context: CliContext, { json }: { json?: true }): Promise<void> {
  const { dataDir } = await dataDirFor(context);
  const [{ readPlan }, { readMembers }, { fleetFolderOf }] = await Promise.all([
    setup(),
    import("../../fleet/control/members.ts"),
    import("../../fleet/fleet-folder.ts"),
  ]);
  const { name } = readPlan(dataDir);
  const live = new Map(readServerStatus(dataDir)?.fleet?.workers.map((worker) => [worker.name, worker]));
  const workers = readMembers(fleetFolderOf(dataDir)).map((member) => ({
    member,
    status: live.get(member.name),
  }));
  if (json) {
    return context.printJson({
      name,
      workers: workers.map(({ member, status }) => ({
        name: member.name,
        added_at: member.addedAt,
        draining: member.isDraining,
        ...(status ? { status } : {}),
      })),
    });
  }
  if (workers.length === 0) context.note(`The fleet ${name} has no workers; \`shruti fleet add\` adds one.`);
  for (const { member, status } of workers)
    context.printLine(`${member.name.padEnd(16)} ${describeWorker(status)}`);
}

/** Describes what a worker does, in one line. */
export function describeWorker(status: WorkerStatus | undefined): string {
  if (!status) return "unknown: the server does not run";
  const { state, places, chunks, device = "", version = "", models, speed, problem } = status;
  const lacking = status.lacking_models ?? [];
  if (state === "absent") return state;
  return [
    `${state}, ${counted(chunks, "chunk")} on ${counted(places, "place")} of ${device}, version ${version}, models ${models.join(", ") || "none"}`,
    ...(status.preparing_places > 0
      ? [`${counted(status.preparing, "recording")} prepared on ${counted(status.preparing_places, "place")}`]
      : []),
    ...(speed === undefined ? [] : [`${speed} × real time a place`]),
    ...lacking.map(({ id, reason }) => `lacks ${id}: ${reason}`),
    ...(problem === undefined ? [] : [problem]),
  ].join("; ");
}
