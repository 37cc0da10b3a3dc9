import { type Command, Option } from "commander";
import {
  ALL_EVENT_TYPES,
  DELIVERY_STATES,
  type DeliveryState,
  type EventType,
} from "../../domain/webhook.ts";
import { toDelivery, toEndpoint } from "../../http/console/views.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { Admin } from "../../services/admin.ts";
import { duration, identifier, wholeNumber } from "../frame/arguments.ts";
import { type CliContext, CommandError } from "../frame/context.ts";
import { renderFields, renderTable } from "../frame/output.ts";

type DeliveryDetails = ReturnType<Admin["webhooks"]["delivery"]>;

const MAX_LISTED = 1000;
const ENDPOINT = ["<endpoint>", "endpoint, by its ID"] as const;

/** `shruti webhooks …` */
export function registerWebhooks(program: Command, context: CliContext): void {
  const webhooks = program
    .command("webhooks")
    .description("endpoints that receive events, and their deliveries");
  addList(webhooks, context);
  addDeliveries(webhooks, context);
  addRedeliver(webhooks, context);
  addSwitches(webhooks, context);
  addRotate(webhooks, context);
  addTest(webhooks, context);
}

function addList(webhooks: Command, context: CliContext): void {
  webhooks
    .command("list")
    .description("endpoints, with the number of waiting and failed events")
    .option("--project <id>", "project (default: all)")
    .option("--json", "print JSON")
    .action(async ({ project, json }: { project?: string; json?: true }) => {
      const admin = await context.openServices();
      if (project !== undefined) admin.accounts.showProject(project);
      const endpoints = admin.webhooks.list(project === undefined ? {} : { projectId: project });
      if (json) {
        context.printJson(endpoints.map(toEndpoint));
        return;
      }
      const rows = endpoints.map((endpoint) => [
        endpoint.id,
        endpoint.url,
        endpoint.projectId,
        endpoint.events.join(" "),
        endpoint.disabledAt === null ? "enabled" : `disabled: ${endpoint.disabledReason ?? "by hand"}`,
        endpoint.pending,
        endpoint.failed,
      ]);
      context.printTable(["ID", "URL", "PROJECT", "ALSO", "STATE", "PENDING", "FAILED"], rows);
    });
}

type DeliveriesOptions = {
  state?: DeliveryState;
  event?: string;
  limit: number;
  after?: string;
  json?: true;
};

function addDeliveries(webhooks: Command, context: CliContext): void {
  webhooks
    .command("deliveries")
    .description("deliveries, newest first, with the reasons of failures")
    .argument("[endpoint]", "only those to this endpoint")
    .addOption(new Option("--state <state>", "only those in this state").choices([...DELIVERY_STATES]))
    .option("--event <id>", "one delivery, with its body and every attempt")
    .option("--limit <n>", "how many", wholeNumber(1, MAX_LISTED), 50)
    .option("--after <id>", "those older than this event", identifier("event"))
    .option("--json", "print JSON")
    .action(async (endpoint: string | undefined, options: DeliveriesOptions) => {
      const { webhooks: service } = await context.openServices();
      const { event, state, limit, after, json } = options;
      if (event !== undefined) {
        const details = service.delivery(event);
        if (json) context.printJson(detailsJson(details));
        else printDetails(context, details);
        return;
      }
      const deliveries = service.deliveries({
        limit,
        ...(endpoint === undefined ? {} : { endpointId: endpoint }),
        ...(state === undefined ? {} : { state }),
        ...(after === undefined ? {} : { after }),
      });
      if (json) {
        context.printJson(deliveries.map(toDelivery));
        return;
      }
      const headings = ["EVENT", "TYPE", "TRANSCRIPTION", "STATE", "ATTEMPTS", "NEXT ATTEMPT", "REASON"];
      const rows = deliveries.map((delivery) => [
        delivery.eventId,
        delivery.event.type,
        delivery.event.transcriptionId,
        delivery.state,
        delivery.attempts,
        time(delivery.nextAttemptAt),
        delivery.reason,
      ]);
      context.printTable(headings, rows);
    });
}

function addRedeliver(webhooks: Command, context: CliContext): void {
  webhooks
    .command("redeliver")
    .description("send events again with the same webhook-id; a running server does it within a second")
    .argument("[events...]", "events, by their IDs")
    .option("--failed <endpoint>", "every failed event of this endpoint")
    .option("--json", "print JSON")
    .action(async (events: string[], { failed, json }: { failed?: string; json?: true }) => {
      if (events.length === 0 && failed === undefined) {
        throw new CommandError("usage", "name at least one event, or an endpoint with --failed");
      }
      const { webhooks: service } = await context.openServices();
      const restarted = events.map((event) => service.redeliver(event).eventId);
      const count = restarted.length + (failed === undefined ? 0 : service.redeliverFailed(failed));
      if (json) context.printJson({ redelivered: count });
      else context.printLine(`${count} ${count === 1 ? "event is" : "events are"} sent again.`);
    });
}

const SWITCHES = [
  {
    verb: "disable",
    description:
      "send an endpoint nothing until it is enabled again; its events wait, new work that names it is refused",
    state: "disabled",
  },
  {
    verb: "enable",
    description: "enable an endpoint again; waiting events are sent at once",
    state: "enabled",
  },
] as const;

function addSwitches(webhooks: Command, context: CliContext): void {
  for (const { verb, description, state } of SWITCHES) {
    webhooks
      .command(verb)
      .description(description)
      .argument(...ENDPOINT)
      .option("--json", "print JSON")
      .action(async (id: string, { json }: { json?: true }) => {
        const { webhooks: service } = await context.openServices();
        service[verb](id);
        if (json) context.printJson({ id, object: "webhook_endpoint", state });
        else context.printLine(`${id} is ${state}.`);
      });
  }

  webhooks
    .command("remove")
    .description("remove an endpoint for good; waiting events fail")
    .argument(...ENDPOINT)
    .option("--json", "print JSON")
    .action(async (id: string, { json }: { json?: true }) => {
      const { webhooks: service } = await context.openServices();
      service.remove(id);
      if (json) context.printJson({ id, object: "webhook_endpoint", state: "removed" });
      else context.printLine(`${id} is removed.`);
    });
}

function addRotate(webhooks: Command, context: CliContext): void {
  webhooks
    .command("rotate")
    .description("give an endpoint a new secret; it is printed this once and cannot be shown again")
    .argument(...ENDPOINT)
    .option(
      "--keep-previous <duration>",
      "how long the previous secret signs as well, such as 24h or 7d",
      duration,
    )
    .option("--at-once", "end the previous secret now, because it leaked")
    .option("--json", "print JSON")
    .action(async (id: string, options: { keepPrevious?: number; atOnce?: true; json?: true }) => {
      if (options.atOnce && options.keepPrevious !== undefined) {
        throw new CommandError("usage", "--at-once and --keep-previous exclude each other");
      }
      const { webhooks: service } = await context.openServices();
      const { secret, previousSecretExpiresAt } = service.rotate(
        id,
        options.atOnce ? 0 : options.keepPrevious,
      );
      if (options.json) {
        const expiry = toTimestamp(previousSecretExpiresAt);
        context.printJson({ id, object: "webhook_endpoint", secret, previous_secret_expires_at: expiry });
        return;
      }
      context.note(
        `The new secret; note it now, it is not shown again. The previous one ends ${time(previousSecretExpiresAt)}.`,
      );
      context.printLine(secret);
    });
}

function addTest(webhooks: Command, context: CliContext): void {
  webhooks
    .command("test")
    .description("send one signed test event from this process, now")
    .argument(...ENDPOINT)
    .addOption(
      new Option("--type <type>", "kind of event")
        .choices([...ALL_EVENT_TYPES])
        .default("transcription.completed"),
    )
    .option("--json", "print JSON")
    .action(async (id: string, { type, json }: { type: EventType; json?: true }) => {
      const { webhooks: service } = await context.openServices();
      const { eventId, status, error, isGone, durationMs, address } = await service.test(id, type);
      if (json) {
        context.printJson({
          event_id: eventId,
          is_delivered: error === null,
          status,
          error,
          duration_ms: durationMs,
          address,
        });
      } else if (error === null) {
        context.printLine(`Delivered: ${address} answered ${status} after ${durationMs} ms.`);
      }
      const gone = isGone ? "; a test changes nothing, but the next event would disable the endpoint" : "";
      if (error !== null) throw new CommandError("failed", `not delivered: ${error}${gone}`);
    });
}

const time = (epochMs: number | null) => (epochMs === null ? null : toTimestamp(epochMs));

function printDetails(context: CliContext, details: DeliveryDetails): void {
  context.io.out(
    renderFields([
      ["event", details.eventId],
      ["type", details.event.type],
      ["transcription", details.event.transcriptionId],
      ["endpoint", details.endpointId],
      ["state", details.state],
      ["next attempt", time(details.nextAttemptAt)],
      ["reason", details.reason],
      ["body", details.event.body],
    ]),
  );
  if (details.history.length === 0) return;
  const rows = details.history.map(({ startedAt, durationMs, status, error }) => [
    time(startedAt),
    durationMs,
    status ?? "–",
    error ?? "delivered",
  ]);
  context.io.out(`\n${renderTable(["ATTEMPT", "MS", "STATUS", "OUTCOME"], rows)}`);
}

function detailsJson(details: DeliveryDetails) {
  return {
    ...toDelivery(details),
    body: details.event.body,
    history: details.history.map(({ startedAt, durationMs, status, error }) => ({
      started_at: toTimestamp(startedAt),
      duration_ms: durationMs,
      status,
      error,
    })),
  };
}
