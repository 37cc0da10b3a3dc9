import { Database } from "bun:sqlite";
import { rmSync } from "node:fs";
import { join } from "node:path";
import type { FleetInstallation, FleetMember } from "./fleet-kit.ts";
import type { RunningServer } from "./kit.ts";

export const LOST_AFTER_SECONDS = 2;
/** A worker that is silent for this time is lost, and its chunks run elsewhere. */
const UNTIL_LOST_MS = LOST_AFTER_SECONDS * 1000 + 1_500;

export type FaultyWorld = { fleet: FleetInstallation; members: FleetMember[]; server: RunningServer };
type Fault = (world: FaultyWorld) => Promise<void>;

/** Every fault ends with all processes running and all links mended. */
export const FAULTS: Record<string, Fault> = {
  async "half the workers killed"({ members }) {
    const half = someOf(members);
    await Promise.all(half.map((member) => member.signal("SIGKILL")));
    await Bun.sleep(UNTIL_LOST_MS);
    for (const member of half) member.start();
  },
  async "half the workers frozen"({ members }) {
    const half = someOf(members);
    for (const member of half) await member.signal("SIGSTOP");
    await Bun.sleep(UNTIL_LOST_MS);
    for (const member of half) await member.signal("SIGCONT");
  },
  async "messaging server killed"({ fleet }) {
    await fleet.nats.signal("SIGKILL");
    await Bun.sleep(1_000);
    await fleet.nats.restart();
  },
  async "messaging server wiped"({ fleet }) {
    await fleet.nats.signal("SIGKILL");
    rmSync(join(fleet.dataDir, "fleet/nats/jetstream"), { recursive: true, force: true });
    await fleet.nats.restart();
  },
  async "messaging server frozen"({ fleet }) {
    await fleet.nats.signal("SIGSTOP");
    await Bun.sleep(4_000);
    await fleet.nats.signal("SIGCONT");
  },
  async "control plane killed"(world) {
    await world.server.kill();
    await Bun.sleep(500);
    world.server = await world.fleet.serve();
  },
  async "control plane frozen"({ server }) {
    server.process.kill("SIGSTOP");
    await Bun.sleep(5_000);
    server.process.kill("SIGCONT");
  },
  async "rights of a worker withdrawn"({ fleet, members }) {
    const gone = members.pop();
    if (!gone) return;
    await fleet.output("fleet", "remove", gone.name);
    await gone.signal("SIGKILL");
    const member = await fleet.addWorker(`new-${Date.now()}`);
    member.start();
    members.unshift(member);
  },
};

/** Faults of links, for a fleet whose links can be cut. `forgotten`: connections of the time before are never used again. */
export const CUTS: Record<string, Fault> = {
  "half the workers cut off": ({ members }) => cut(linksOf(someOf(members)), false),
  "half the workers cut off, connections forgotten": ({ members }) => cut(linksOf(someOf(members)), true),
  "control plane cut off from the messaging server": ({ fleet }) => cut(controlLinks(fleet), false),
  "control plane cut off from the messaging server, connections forgotten": ({ fleet }) =>
    cut(controlLinks(fleet), true),
  "audio cut off": ({ fleet }) => cut(fleet.links ? [fleet.links.audio] : [], false),
  "audio cut off, connections forgotten": ({ fleet }) => cut(fleet.links ? [fleet.links.audio] : [], true),
};

type Link = NonNullable<FleetMember["link"]>;
const linksOf = (members: readonly FleetMember[]): Link[] => members.flatMap(({ link }) => link ?? []);
const controlLinks = ({ links }: FleetInstallation): Link[] => (links ? [links.control] : []);

async function cut(links: readonly Link[], forgets: boolean): Promise<void> {
  if (links.length === 0) throw new Error("the links of this fleet cannot be cut");
  for (const link of links) link.cut();
  await Bun.sleep(UNTIL_LOST_MS);
  for (const link of links) link.mend(forgets);
}

export function someOf<T>(all: readonly T[]): T[] {
  const shuffled = all.map((one) => ({ one, at: Math.random() })).sort((a, b) => a.at - b.at);
  return shuffled.slice(0, Math.floor(all.length / 2)).map(({ one }) => one);
}

/** What a database says about chunks and money. It is read, and written once, beside the program. */
export type Witness = {
  /** Counts the transcriptions that are not final. */
  unfinished(): number;
  /** Returns how often each chunk of a transcription was ended, by position. */
  ends(transcriptionId: string): number[];
  /** Counts the charges of a transcription in the ledger. */
  charges(transcriptionId: string): number;
  /** Counts everything that is ended, and what was ended twice. */
  totals(): { chunks: number; twice: number };
  close(): void;
};

const FINAL = "('completed', 'partial', 'failed', 'cancelled')";

/** Lets a trigger write down each end of a chunk. Called before the server starts. */
export function openWitness(dataDir: string): Witness {
  const path = join(dataDir, "shruti.db");
  const writer = new Database(path);
  writer.run("CREATE TABLE test_ends (transcription_id TEXT, position INTEGER, state TEXT)");
  writer.run(`CREATE TRIGGER test_chunk_ends AFTER UPDATE OF state ON chunks WHEN NEW.state <> 'waiting'
    BEGIN INSERT INTO test_ends VALUES (NEW.transcription_id, NEW.position, NEW.state); END`);
  writer.close();
  const database = new Database(path, { readonly: true });
  database.run("PRAGMA busy_timeout = 10000");
  const count = (sql: string, ...values: string[]) =>
    database.query<{ n: number }, string[]>(sql).get(...values)?.n ?? 0;
  return {
    unfinished: () => count(`SELECT count(*) AS n FROM transcriptions WHERE state NOT IN ${FINAL}`),
    ends: (id) =>
      database
        .query<{ n: number }, [string]>(
          "SELECT count(*) AS n FROM test_ends WHERE transcription_id = ? GROUP BY position ORDER BY position",
        )
        .all(id)
        .map(({ n }) => n),
    charges: (id) =>
      count("SELECT count(*) AS n FROM ledger WHERE transcription_id = ? AND kind = 'charge'", id),
    totals: () => ({
      chunks: count("SELECT count(*) AS n FROM (SELECT DISTINCT transcription_id, position FROM test_ends)"),
      twice: count(
        "SELECT count(*) AS n FROM (SELECT 1 FROM test_ends GROUP BY transcription_id, position HAVING count(*) > 1)",
      ),
    }),
    close: () => database.close(),
  };
}
