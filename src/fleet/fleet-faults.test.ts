import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { InstalledModel } from "../domain/model.ts";
import type { ChunkExecutor } from "../engine/executor.ts";
import { type ChunkJob, type ChunkOutcome, EngineError } from "../engine/protocol.ts";
import { NATS_SERVER } from "../testing/boxes/nats-server.ts";
import {
  executorOf,
  fleetChunk,
  fleetModel,
  kindOf,
  outcome,
  repeated,
  SEGMENT,
  said,
  until,
  working,
} from "../testing/kits/fleet-chunks.ts";
import type { FleetWorld } from "../testing/kits/fleet-harness.ts";
import { setUpFleet } from "../testing/kits/fleet-hooks.ts";
import type { Fleet } from "./control/open-fleet.ts";
import { jobIdOf } from "./job-id.ts";
import { type Link, type LinkChange, openLink } from "./link.ts";
import { PROTOCOL, readReply, readTicket, type Ticket, write } from "./messages.ts";
import { subjectsOf } from "./subjects.ts";
import type { FleetWorker } from "./worker/open-worker.ts";

/** Faults of a fleet, with a real messaging server, and workers whose recognition is a script. */

const describeFleet = NATS_SERVER === undefined ? describe.skip : describe;
const LOST_AFTER_SECONDS = 2;
setDefaultTimeout(120_000);

describeFleet("faults of a fleet (needs nats-server)", () => {
  let world: FleetWorld;
  let folder: string;
  let model: InstalledModel;
  const open = setUpFleet("faults", (setting) => {
    ({ world, folder } = setting);
    model = modelOf("weights");
  });

  const modelOf = (content: string) => fleetModel(folder, content);

  function control(): Fleet {
    const fleet = world.openControl({ lostAfterSeconds: LOST_AFTER_SECONDS });
    open.push(fleet.engine.close);
    return fleet;
  }

  async function worker(
    name: string,
    recognize: ChunkExecutor["recognize"],
    parts: { installed?: () => InstalledModel[] } = {},
  ): Promise<FleetWorker> {
    const executor = executorOf(recognize);
    const opened = await world.openWorker(name, { executor, installed: parts.installed ?? (() => [model]) });
    open.push(opened.close);
    return opened;
  }

  const chunk = (value: number) => fleetChunk(model, value);

  /** Opens a link with the key of a worker, as a program that does not keep our rules could. */
  function rogue(name: string, onChange?: (change: LinkChange) => void): Link {
    const link = openLink({
      ...{ servers: world.addresses, ca: world.caText(), member: name, seed: world.seedOf(name) },
      ...(onChange ? { onChange } : {}),
    });
    open.push(link.close);
    return link;
  }

  test("a result whose caller is stopped before it is stored does not stay with its worker", async () => {
    const fleet = control();
    await worker("one", async () => said("one"));
    await working(fleet, 1);
    const [stop, job] = [new AbortController(), chunk(90)];
    await fleet.engine.recognize(job, stop.signal);
    const ofWorker = () => fleet.status().workers.map(({ chunks }) => chunks);
    await until(() => ofWorker()[0] === 1);
    const stoppedAt = performance.now();
    stop.abort(new Error("the transcription is cancelled"));
    await until(() => ofWorker()[0] === 0);
    // Without a word from the control plane, the worker would ask again for ten seconds.
    expect(performance.now() - stoppedAt).toBeLessThan(8_000);
  });

  test("a chunk that ends two machines fails, and does not reach a third", async () => {
    const fleet = control();
    const reached: string[] = [];
    for (const name of ["one", "two", "three"]) {
      const opened = await worker(name, async ({ audio }) => {
        if (!("pcm" in audio) || audio.pcm[0] !== 66) return said("fine");
        reached.push(name);
        void opened.close();
        return new Promise<ChunkOutcome>(() => {});
      });
    }
    await working(fleet, 3);
    const poison = chunk(66);
    expect(await kindOf(fleet, poison)).toBe("interrupted");
    expect(await kindOf(fleet, poison)).toBe("crashed");
    expect(await kindOf(fleet, poison)).toBe("crashed");
    expect(new Set(reached).size).toBe(2);
    expect(await repeated(fleet, chunk(1))).toBe("fine");
  });

  test("a machine that recognizes silence is healthy although chunks fail, and rests for a short time only", async () => {
    const fleet = control();
    let isBroken = false;
    const heard: string[] = [];
    await worker("one", async ({ audio }) => {
      const value = "pcm" in audio ? audio.pcm[0] : undefined;
      heard.push(value === 0 ? "silence" : "chunk");
      if (isBroken || value === 66) throw new EngineError("failed", "it cannot be recognized");
      return said("fine");
    });
    await working(fleet, 1);
    const failThrice = async () => {
      for (let n = 0; n < 3; n++) expect(await kindOf(fleet, chunk(66))).toBe("failed");
    };
    await failThrice();
    await until(() => heard.length === 4);
    expect(heard).toEqual(["chunk", "chunk", "chunk", "silence"]);
    isBroken = true;
    await failThrice();
    await until(() => fleet.status().workers[0]?.problem === "5 chunks in a row have failed");
    expect(heard.slice(4)).toEqual(["chunk", "silence", "chunk", "silence", "chunk", "silence"]);
  });

  test("the first result of a worker that was added a moment ago counts", async () => {
    const fleet = control();
    const result = kindOf(fleet, chunk(14));
    await worker("new", async () => said("first"));
    expect(await result).toBe("first");
    expect(fleet.status()).toMatchObject({ results: { taken: 1, refused: 0 }, interrupted_chunks: 0 });
  });

  test("results that lie are refused, and another worker recognizes the chunk", async () => {
    const fleet = control();
    await (await worker("liar", async () => said("never"))).close();
    const link = rogue("liar");
    await link.whenUp(5_000);
    const lies: ((ticket: Ticket) => object)[] = [
      () => outcome([{ ...SEGMENT, startMs: -1 }]),
      () => outcome([{ ...SEGMENT, endMs: 90_000 }]),
      () => outcome([{ ...SEGMENT, text: "a".repeat(5_000) }]),
      () => outcome(Array.from({ length: 30 }, () => ({ ...SEGMENT, text: "a".repeat(3_900) }))),
      () => outcome([{ ...SEGMENT, confidence: 2 }]),
      () => ({ outcome: undefined }),
      () => ({ ...outcome([SEGMENT]), job: "0".repeat(32) }),
      () => ({ ...outcome([SEGMENT]), proof: "x".repeat(43) }),
      ({ v }) => ({ ...outcome([SEGMENT]), v: v + 1 }),
    ];
    await fleet.engine.warm(model, new AbortController().signal).catch(() => {});
    const job = chunk(2);
    // Without a pause between two tries: a lie that comes while the chunk is not wanted is examined later.
    const honest = again(() => kindOf(fleet, job));
    const ticket = readTicket((await pull(link, job)).data);
    for (const lie of lies) {
      const { v, job: id, attempt, proof } = ticket;
      const message = { v, job: id, attempt, proof, ...lie(ticket) };
      const done = await link.request(subjectsOf("main").done("liar"), JSON.stringify(message), 3_000);
      expect(readReply(done.data).taken).toBe(false);
    }
    // A worker cannot send a result under another's name: the server does not pass it on.
    await world
      .openWorker("one", { executor: executorOf(async () => said("honest")), installed: () => [] })
      .then((w) => w.close());
    link.publish(
      subjectsOf("main").done("one"),
      write({
        v: PROTOCOL,
        job: ticket.job,
        attempt: ticket.attempt,
        proof: ticket.proof,
        ...outcome([SEGMENT]),
      }),
    );
    await link.close();
    await worker("two", async () => said("honest"));
    expect(await honest).toBe("honest");
    expect(fleet.status().results.refused).toBe(lies.length);
  });

  test("a lie that comes while its chunk is not wanted is refused once the chunk is wanted again", async () => {
    const fleet = control();
    await (await worker("liar", async () => said("never"))).close();
    const link = rogue("liar");
    await link.whenUp(5_000);
    const job = chunk(16);
    const stop = new AbortController();
    const first = kindOf(fleet, job, stop.signal);
    const { v, job: id, attempt, proof } = readTicket((await pull(link, job)).data);
    stop.abort();
    expect(await first).toBe("aborted");
    const lie = { v, job: id, attempt, proof, ...outcome([{ ...SEGMENT, endMs: 90_000 }]) };
    await link.request(subjectsOf("main").done("liar"), JSON.stringify(lie), 3_000);
    await until(() => fleet.status().results.early === 1);
    await link.close();
    await worker("one", async () => said("honest"));
    expect(await repeated(fleet, job)).toBe("honest");
    expect(fleet.status().results).toMatchObject({ refused: 1, adopted: 0 });
  });

  test("the key of a worker opens nothing of the others", async () => {
    const fleet = control();
    await worker("one", async () => said("fine"));
    await (await worker("two", async () => said("fine"))).close();
    await working(fleet, 1);
    const refusals: string[] = [];
    const link = rogue("two", (change) => {
      if (change.state === "refused") refusals.push(change.problem);
    });
    await link.whenUp(5_000);
    const { done, beat, stream } = subjectsOf("main");
    const heard: string[] = [];
    const subjects = [
      done("*"),
      beat("*"),
      "shruti.main.>",
      "_INBOX.one.>",
      "_INBOX.control.>",
      "$JS.>",
      ">",
    ];
    for (const subject of subjects) link.subscribe(subject, (message) => heard.push(message.subject));
    for (const subject of [
      done("one"),
      beat("one"),
      `$JS.API.STREAM.DELETE.${stream}`,
      `$JS.API.STREAM.MSG.GET.${stream}`,
      "shruti.main.cancel",
    ]) {
      link.publish(subject, "{}");
    }
    expect(await repeated(fleet, chunk(3))).toBe("fine");
    await Bun.sleep(1_200);
    expect(heard).toEqual([]);
    expect(refusals.length).toBeGreaterThanOrEqual(subjects.length + 5);
    expect(await repeated(fleet, chunk(4))).toBe("fine");
  });

  test("no answer goes where the worker may not hear, and no worker can have another accused", async () => {
    const fleet = control();
    let isFree = false;
    await worker("one", async () => {
      await until(() => isFree);
      return said("one");
    });
    await (await worker("evil", async () => said("never"))).close();
    await working(fleet, 1);
    const results = [70, 71, 72].map((value) => repeated(fleet, chunk(value)));
    const counts = () => fleet.status().tickets.published;
    await until(() => counts() === 3);
    const link = rogue("evil");
    expect(await link.whenUp(5_000)).toBe(true);
    const { hello, done, beat, order, cancel, stream } = subjectsOf("main");
    const connection = link.connection();
    const targets = [
      `$JS.API.STREAM.PURGE.${stream}`,
      done("one"),
      beat("one"),
      order("one"),
      cancel,
      "_INBOX.one.x",
    ];
    const asked = [
      ...[hello("evil"), done("evil")].map(
        (subject) => [subject, write({ v: PROTOCOL, version: "1" })] as const,
      ),
      // The server itself delivers states and empty receipts to any address that it is given.
      [
        `$JS.API.CONSUMER.MSG.NEXT.${stream}.m_unknown`,
        new TextEncoder().encode('{"batch":1,"no_wait":true}'),
      ],
      [`$JS.ACK.${stream}.m_unknown.1.1.1.1.0`, new TextEncoder().encode("+ACK")],
    ] as const;
    for (let round = 0; round < 20; round++)
      for (const [subject, data] of asked)
        for (const reply of targets) connection?.publish(subject, data, { reply });
    await link.ping();
    await Bun.sleep(2_500);
    expect(fleet.status().workers.filter(({ refused_messages: refused }) => refused > 0)).toEqual([]);
    expect(fleet.status()).toMatchObject({ results: { refused: 0 }, tickets: { published: 3, repeated: 0 } });
    isFree = true;
    expect(await Promise.all(results)).toEqual(["one", "one", "one"]);
  });

  test("the time that a result claims changes no estimate beyond what has passed", async () => {
    const fleet = control();
    await (await worker("liar", async () => said("never"))).close();
    const link = rogue("liar");
    await link.whenUp(5_000);
    await fleet.engine.warm(model, new AbortController().signal).catch(() => {});
    const job = chunk(80);
    const result = fleet.engine.recognize(job, new AbortController().signal);
    const { v, job: id, attempt, proof } = readTicket((await pull(link, job)).data);
    const lie = { v, job: id, attempt, proof, outcome: { segments: [SEGMENT], elapsed_ms: 1e12 } };
    const startedAt = performance.now();
    void link.request(subjectsOf("main").done("liar"), JSON.stringify(lie), 3_000).catch(() => {});
    const { workMs, onStored } = await result;
    onStored?.();
    expect(workMs).toBeLessThan(performance.now() - startedAt + 10_000);
  });

  test("a worker with other weights under the name of a model does not offer them", async () => {
    const fleet = control();
    const other = modelOf("other");
    const forged = { ...model, files: other.files };
    await worker("one", async () => said("wrong weights"), { installed: () => [forged] });
    await until(() =>
      fleet.status().workers.some(({ name, state }) => name === "one" && state === "working"),
    );
    expect(fleet.status().workers.find(({ name }) => name === "one")?.models).toEqual([]);
    const result = repeated(fleet, chunk(5));
    await worker("two", async () => said("right weights"));
    expect(await result).toBe("right weights");
  });

  test("a chunk that runs while the control plane starts again is not recognized twice", async () => {
    const first = world.openControl({ lostAfterSeconds: LOST_AFTER_SECONDS });
    const runs: number[] = [];
    const gate = Promise.withResolvers<void>();
    await worker("one", async ({ audio }) => {
      runs.push("pcm" in audio ? (audio.pcm[0] ?? 0) : 0);
      await gate.promise;
      return said("once");
    });
    await working(first, 1);
    const [early, late] = [chunk(6), chunk(7)];
    const lost = kindOf(first, early);
    await until(() => runs.length === 1);
    await first.engine.close();
    expect(await lost).toBe("interrupted");
    // The result comes before the chunk is asked for again.
    const second = control();
    gate.resolve();
    await until(() => second.status().results.early === 1);
    expect(await repeated(second, early)).toBe("once");
    expect(await repeated(second, late)).toBe("once");
    expect(runs).toEqual([6, 7]);
  });

  test("chunks survive the loss of all tickets, and running chunks are not recognized twice", async () => {
    const fleet = control();
    const runs: number[] = [];
    const gate = Promise.withResolvers<void>();
    await worker("one", async ({ audio }) => {
      runs.push("pcm" in audio ? (audio.pcm[0] ?? 0) : 0);
      await gate.promise;
      return said("kept");
    });
    await working(fleet, 1);
    const chunks = [8, 9, 10, 11].map((value) => repeated(fleet, chunk(value)));
    await until(() => runs.length === 1);
    await world.nats.signal("SIGKILL");
    gate.resolve();
    await Bun.sleep(500);
    await world.nats.restart();
    expect(await Promise.all(chunks)).toEqual(["kept", "kept", "kept", "kept"]);
    expect(runs.toSorted((a, b) => a - b)).toEqual([8, 9, 10, 11]);
  });

  test("a worker whose rights are withdrawn loses its chunk, and another takes it", async () => {
    const fleet = control();
    await worker("gone", () => new Promise(() => {}));
    await working(fleet, 1);
    const result = repeated(fleet, chunk(12));
    await until(() => fleet.status().workers.some(({ name, chunks }) => name === "gone" && chunks === 1));
    await world.removeWorker("gone");
    await worker("one", async () => said("elsewhere"));
    expect(await result).toBe("elsewhere");
    expect(fleet.status().workers.some(({ name }) => name === "gone")).toBe(false);
  });

  test("a link whose connection closes loses messages, rejects requests, and comes up again", async () => {
    await (await worker("one", async () => said("fine"))).close();
    const link = rogue("one");
    expect(await link.whenUp(5_000)).toBe(true);
    const { beat, hello } = subjectsOf("main");
    const asked = link.request(hello("one"), "{}", 60_000).then(
      () => "answered",
      () => "rejected",
    );
    const old = link.connection();
    void old?.close();
    // The client may throw once the connection is closed, which would end the program.
    while (link.connection() === old) {
      link.publish(beat("one"), "{}");
      await Bun.sleep(0);
    }
    link.subscribe(subjectsOf("main").cancel, () => {});
    expect(await asked).toBe("rejected");
    expect(await link.whenUp(5_000)).toBe(true);
  });

  test("audio needs the token of its job, while the job is wanted", async () => {
    const fleet = control();
    await worker("one", async () => said("fine"));
    await (await worker("liar", async () => said("never"))).close();
    await working(fleet, 1);
    const link = rogue("liar");
    await link.whenUp(5_000);
    await until(() =>
      fleet.status().workers.some(({ name, state }) => name === "one" && state === "working"),
    );
    await world.drain("one");
    await until(() =>
      fleet.status().workers.some(({ name, state }) => name === "one" && state === "draining"),
    );
    await Bun.sleep(5_200);
    const stop = new AbortController();
    const wanted = kindOf(fleet, chunk(13), stop.signal);
    const { audio } = readTicket((await pull(link, chunk(13))).data);
    const get = async (url: string, token: string, method = "GET") => {
      const headers = { authorization: `Bearer ${token}` };
      return (await fetch(url, { method, headers, tls: { ca: world.caText() } })).status;
    };
    const [until_ = "", mac = ""] = audio.token.split(".");
    expect(await get(audio.url, audio.token)).toBe(200);
    expect(await get(audio.url, `${Number(until_) + 1}.${mac}`)).toBe(401);
    expect(await get(audio.url, "")).toBe(401);
    expect(await get(audio.url.replace(/.{32}$/, "0".repeat(32)), audio.token)).toBe(401);
    expect(await get(audio.url, audio.token, "POST")).toBe(404);
    expect(await get(new URL("/v1/models", audio.url).href, audio.token)).toBe(404);
    stop.abort();
    expect(await wanted).toBe("aborted");
    expect(await get(audio.url, audio.token)).toBe(404);
    await world.drain("one", false);
  }, 30_000);
});

/** Repeats what is interrupted, at once. */
async function again(recognize: () => Promise<string>): Promise<string> {
  for (let tries = 0; tries < 100; tries++) {
    const found = await recognize();
    if (found !== "interrupted") return found;
  }
  throw new Error("interrupted 100 times");
}

/** Takes a ticket from the stream, as a worker does. */
async function pull(link: Link, { model, isUrgent = false, ...job }: ChunkJob) {
  const hash = model.sha256 ?? "";
  const { stream, consumer } = subjectsOf("main");
  const subject = `$JS.API.CONSUMER.MSG.NEXT.${stream}.${consumer(hash, isUrgent ? "s" : "a")}`;
  for (;;) {
    const message = await link.pull(subject, JSON.stringify({ batch: 1, expires: 5e9 }), 6_000);
    if (message.status !== undefined) continue;
    if (readTicket(message.data).job === jobIdOf({ model, ...job }, hash)) return message;
  }
}
