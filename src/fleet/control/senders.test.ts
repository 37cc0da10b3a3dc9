import { describe, expect, test } from "bun:test";
import type { LinkMessage } from "../link.ts";
import { controlRights } from "../setup/nats-config.ts";
import { subjectsOf } from "../subjects.ts";
import { senderOf } from "./senders.ts";

const { done, beat, stream } = subjectsOf("main");
const data = new TextEncoder().encode("{}");
const request: LinkMessage = { subject: done("one"), data, reply: "_INBOX.one.abc.1", status: undefined };

describe("the sender of a message", () => {
  test("is the worker whose subject it has", () => {
    expect(senderOf(request, done, "request")).toBe("one");
    expect(senderOf({ subject: beat("one"), data, status: undefined }, beat, "sign")).toBe("one");
  });

  // Whatever the messaging server can be asked to deliver under another worker's subject.
  test.each<[string, Partial<LinkMessage>]>([
    ["without an address for the answer", { reply: "" }],
    ["that is to be answered to the stream's API", { reply: `$JS.API.STREAM.PURGE.${stream}` }],
    ["that is to be answered to another worker", { reply: "_INBOX.two.abc.1" }],
    ["that is to be answered to a worker whose name begins in the same way", { reply: "_INBOX.one-2.abc" }],
    ["that is to be answered to the control plane", { reply: "_INBOX.control.abc" }],
    ["that is to be answered as another worker's result", { reply: done("two") }],
    ["with a state of the server", { status: 404 }],
    ["without content, as the server acknowledges", { data: new Uint8Array() }],
    ["that is a ticket", { subject: "shruti.main.job.0123456789abcdef.a.one", reply: "$JS.ACK.x" }],
  ])("is not known for one %s", (_, strange) => {
    expect(senderOf({ ...request, ...strange }, done, "request")).toBeUndefined();
  });

  test("is not known for a sign of life that asks for an answer", () => {
    expect(senderOf({ ...request, subject: beat("one") }, beat, "sign")).toBeUndefined();
  });
});

test("the control plane may publish orders, tickets and answers, and use of the stream's API what it needs", () => {
  const { publish, subscribe } = controlRights("main");
  const matches = (subject: string, right: string) =>
    new RegExp(`^${right.replaceAll(/[.$]/g, "\\$&").replaceAll("*", "[^.]+").replaceAll(">", ".+")}$`).test(
      subject,
    );
  for (const subject of [
    ...["shruti.main.done.one", "shruti.main.beat.one", "shruti.main.hello.one"],
    ...["PURGE", "DELETE", "UPDATE"].map((call) => `$JS.API.STREAM.${call}.${stream}`),
    "$JS.API.STREAM.INFO.OTHER",
  ])
    expect([subject, publish.some((right) => matches(subject, right))]).toEqual([subject, false]);
  expect(subscribe).not.toContain("shruti.main.>");
});
