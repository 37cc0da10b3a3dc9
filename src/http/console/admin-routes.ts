import { AppError } from "../../domain/errors.ts";
import { portions } from "../../lib/csv.ts";
import { toSeconds, toTimestamp } from "../../lib/time.ts";
import type { NewOrganization } from "../../services/accounts.ts";
import type { ConsoleSession } from "../../services/console-sessions.ts";
import { usageCsv } from "../../services/usage-csv.ts";
import type { OrganizationRow } from "../../store/organizations.ts";
import { listPageOfAll } from "../../store/transcriptions.ts";
import type { HttpDeps } from "../deps.ts";
import { defineRoutes } from "../route.ts";
import * as wire from "../wire/console.ts";
import { DEFAULT_PAGE_SIZE } from "../wire/paging.ts";
import { csvResponse, pageOf, whole } from "./admin-answers.ts";
import { checkGrant, expiryOf, sequenceOf, settingsOf, statesOf } from "./admin-requests.ts";
import { adminOperation, createGuard, type Guard } from "./guard.ts";
import {
  toCredit,
  toDelivery,
  toEndpoint,
  toKey,
  toLedgerEntry,
  toModel,
  toOrganization,
  toProject,
  toTranscription,
} from "./views.ts";

/**
 * The admin part of the console, `/console/api/…` (docs/console.md section 4). Whatever changes something goes through
 * the services that the command line uses; the audit log names the user of the session.
 */
export function adminRoutes(deps: HttpDeps) {
  const { config, clock, baseUrl } = deps;
  const guard = createGuard({ config, clock, baseUrl, sessions: deps.admin.sessions });
  return defineRoutes("console-admin")
    .use(sessionRoutes(deps, guard))
    .use(overviewRoutes(deps, guard))
    .use(organizationRoutes(deps, guard))
    .use(creditRoutes(deps, guard))
    .use(accessRoutes(deps, guard))
    .use(webhookRoutes(deps, guard))
    .use(deliveryRoutes(deps, guard))
    .use(workRoutes(deps, guard));
}

function sessionRoutes({ admin }: HttpDeps, guard: Guard) {
  const { sessions } = admin;
  const shown = ({ csrfToken, expiresAt }: ConsoleSession): wire.Session => ({
    object: "console.session",
    csrf_token: csrfToken,
    expires_at: toTimestamp(expiresAt),
  });
  return defineRoutes("console-session")
    .post(
      "/console/api/session",
      ({ request, body, set }) => {
        const session = guard.signIn(body.token);
        set.headers["set-cookie"] = guard.cookieOf(request, session);
        return shown(session);
      },
      { response: { 200: wire.Session }, ...adminOperation(guard.admit, { body: wire.SessionCreate }) },
    )
    .get("/console/api/session", ({ request }) => shown(guard.requireAdmin(request)), {
      response: { 200: wire.Session },
      ...adminOperation(guard.requireAdmin),
    })
    .delete(
      "/console/api/session",
      ({ request, set }): wire.SessionEnded => {
        sessions.end(guard.requireAdmin(request).secret);
        set.headers["set-cookie"] = guard.cookieOf(request, undefined);
        return { object: "console.session", ended: true };
      },
      { response: { 200: wire.SessionEnded }, ...adminOperation(guard.requireAdmin) },
    );
}

function overviewRoutes({ admin, models }: HttpDeps, { requireAdmin }: Guard) {
  return defineRoutes("console-overview")
    .get("/console/api/overview", () => admin.overview(), {
      response: { 200: wire.Overview },
      ...adminOperation(requireAdmin),
    })
    .get("/console/api/series", ({ query }) => admin.series(query.span ?? "hour"), {
      response: { 200: wire.Series },
      ...adminOperation(requireAdmin, { query: wire.SeriesQuery }),
    })
    .get(
      "/console/api/models",
      (): wire.ConsoleModelList => ({
        ...whole(models.list().map((model) => toModel(models, model))),
        problems: [...models.problems(), ...models.routeProblems(), ...(models.draftUse()?.problems ?? [])],
      }),
      { response: { 200: wire.ConsoleModelList }, ...adminOperation(requireAdmin) },
    );
}

function organizationRoutes({ admin, config, uploads }: HttpDeps, { requireAdmin }: Guard) {
  const { accounts } = admin;
  const shown = (row: OrganizationRow) => toOrganization(row, config, uploads.storedLimitOf(row).bytes);
  const answer = { response: { 200: wire.Organization } };
  return defineRoutes("console-organizations")
    .get(
      "/console/api/organizations",
      () =>
        whole(
          accounts
            .listOrganizations()
            .filter(({ purgedAt }) => purgedAt === null)
            .map(shown),
        ),
      {
        response: { 200: wire.OrganizationList },
        ...adminOperation(requireAdmin),
      },
    )
    .post(
      "/console/api/organizations",
      ({ body }) => shown(accounts.createOrganization(settingsOf(body) as NewOrganization)),
      { ...answer, ...adminOperation(requireAdmin, { body: wire.OrganizationCreate }) },
    )
    .get("/console/api/organizations/:id", ({ params }) => shown(accounts.showOrganization(params.id)), {
      ...answer,
      ...adminOperation(requireAdmin),
    })
    .patch(
      "/console/api/organizations/:id",
      ({ params, body }) => shown(accounts.setOrganization(params.id, settingsOf(body))),
      { ...answer, ...adminOperation(requireAdmin, { body: wire.OrganizationChange }) },
    )
    .post(
      "/console/api/organizations/:id/disable",
      ({ params }) => shown(accounts.disableOrganization(params.id)),
      { ...answer, ...adminOperation(requireAdmin) },
    )
    .post(
      "/console/api/organizations/:id/enable",
      ({ params }) => shown(accounts.enableOrganization(params.id)),
      { ...answer, ...adminOperation(requireAdmin) },
    );
}

function creditRoutes({ credit, config }: HttpDeps, { requireAdmin }: Guard) {
  return defineRoutes("console-credit")
    .post(
      "/console/api/organizations/:id/grants",
      ({ params, body }): wire.Granted => {
        const { amount_paise: amountPaise, note } = body;
        checkGrant(amountPaise, note);
        const input = { organizationId: params.id, amountPaise, ...(note === undefined ? {} : { note }) };
        const granted = credit.grant(input);
        return { object: "grant", entry: toLedgerEntry(granted.entry), credit: toCredit(granted.credit) };
      },
      { response: { 200: wire.Granted }, ...adminOperation(requireAdmin, { body: wire.GrantCreate }) },
    )
    .get(
      "/console/api/organizations/:id/ledger",
      ({ params, query }): wire.LedgerList => {
        const after = query.after === undefined ? undefined : sequenceOf(query.after);
        const page = credit.ledger(params.id, {
          limit: query.limit ?? DEFAULT_PAGE_SIZE,
          ...(after === undefined ? {} : { after }),
        });
        const next = page.next === null ? null : String(page.next);
        return { object: "list", data: page.data.map(toLedgerEntry), next };
      },
      { response: { 200: wire.LedgerList }, ...adminOperation(requireAdmin, { query: wire.PageQuery }) },
    )
    .get(
      "/console/api/organizations/:id/usage",
      async ({ params, query }): Promise<wire.UsageDays> => ({
        object: "console.usage",
        currency: "INR",
        timezone: config.billing.timezone,
        days: (await credit.usageByDay(params.id, query)).map((day) => ({
          day: day.day,
          transcriptions: day.transcriptions,
          audio_seconds: toSeconds(day.audioMs),
          billed_seconds: toSeconds(day.billedMs),
          amount_paise: day.amountPaise,
        })),
      }),
      { response: { 200: wire.UsageDays }, ...adminOperation(requireAdmin, { query: wire.UsageQuery }) },
    )
    .get(
      "/console/api/organizations/:id/usage.csv",
      ({ params, query }) => {
        const events = credit.exportUsage(params.id, credit.rangeOf(query));
        return csvResponse(`${params.id}-usage.csv`, portions(usageCsv(events)));
      },
      adminOperation(requireAdmin, { query: wire.UsageQuery }),
    );
}

function accessRoutes({ admin, apiKeys, clock }: HttpDeps, { requireAdmin }: Guard) {
  const { accounts } = admin;
  return defineRoutes("console-access")
    .get(
      "/console/api/projects",
      ({ query }) => whole(accounts.listProjects(query.organization_id).map(toProject)),
      { response: { 200: wire.ProjectList }, ...adminOperation(requireAdmin, { query: wire.ProjectQuery }) },
    )
    .post(
      "/console/api/projects",
      ({ body }) =>
        toProject(accounts.createProject({ organizationId: body.organization_id, name: body.name })),
      { response: { 200: wire.Project }, ...adminOperation(requireAdmin, { body: wire.ProjectCreate }) },
    )
    .get(
      "/console/api/keys",
      ({ query }) => {
        if (query.organization_id !== undefined) accounts.showOrganization(query.organization_id);
        const found = apiKeys.listKeys({
          ...(query.project_id === undefined ? {} : { projectId: query.project_id }),
          ...(query.organization_id === undefined ? {} : { organizationId: query.organization_id }),
        });
        return whole(found.map((key) => toKey(key, clock.now())));
      },
      { response: { 200: wire.KeyList }, ...adminOperation(requireAdmin, { query: wire.KeyQuery }) },
    )
    .post(
      "/console/api/keys",
      ({ body }): wire.KeyCreated => {
        const { project_id: projectId, name, scopes, expires_at: expires } = body;
        const { key, ...made } = apiKeys.createKey({
          ...{ projectId, name },
          ...(scopes === undefined ? {} : { scopes }),
          ...(expires === undefined ? {} : { expiresAt: expiryOf(expires, clock.now()) }),
        });
        return { ...toKey(made, clock.now()), key };
      },
      { response: { 200: wire.KeyCreated }, ...adminOperation(requireAdmin, { body: wire.KeyCreate }) },
    )
    .post("/console/api/keys/:id/revoke", ({ params }) => toKey(apiKeys.revokeKey(params.id), clock.now()), {
      response: { 200: wire.Key },
      ...adminOperation(requireAdmin),
    });
}

function webhookRoutes({ webhooks, onWebhooksChanged }: HttpDeps, { requireAdmin }: Guard) {
  const endpoint = (id: string) => {
    const found = webhooks.show(id);
    return toEndpoint(found);
  };
  return defineRoutes("console-webhooks")
    .get(
      "/console/api/webhook_endpoints",
      ({ query }) =>
        whole(
          webhooks
            .list(query.project_id === undefined ? {} : { projectId: query.project_id })
            .map(toEndpoint),
        ),
      {
        response: { 200: wire.ConsoleEndpointList },
        ...adminOperation(requireAdmin, { query: wire.EndpointQuery }),
      },
    )
    .post(
      "/console/api/webhook_endpoints/:id/enable",
      ({ params }) => {
        webhooks.enable(params.id);
        onWebhooksChanged();
        return endpoint(params.id);
      },
      { response: { 200: wire.ConsoleEndpoint }, ...adminOperation(requireAdmin) },
    )
    .post(
      "/console/api/webhook_endpoints/:id/disable",
      ({ params }) => {
        webhooks.disable(params.id);
        return endpoint(params.id);
      },
      { response: { 200: wire.ConsoleEndpoint }, ...adminOperation(requireAdmin) },
    )
    .post(
      "/console/api/webhook_endpoints/:id/redeliver",
      ({ params }): wire.Redelivered => {
        const events = webhooks.redeliverFailed(params.id);
        onWebhooksChanged();
        return { object: "console.redelivery", events };
      },
      { response: { 200: wire.Redelivered }, ...adminOperation(requireAdmin) },
    );
}

function deliveryRoutes({ webhooks, onWebhooksChanged }: HttpDeps, { requireAdmin }: Guard) {
  return defineRoutes("console-deliveries")
    .get(
      "/console/api/deliveries",
      ({ query }) => {
        const { limit = DEFAULT_PAGE_SIZE, after, endpoint_id: endpointId, state } = query;
        const rows = webhooks.deliveries({
          limit: limit + 1,
          ...(after === undefined ? {} : { after }),
          ...(endpointId === undefined ? {} : { endpointId }),
          ...(state === undefined ? {} : { state }),
        });
        return pageOf(rows.map(toDelivery), limit, (row) => row.event_id);
      },
      {
        response: { 200: wire.DeliveryList },
        ...adminOperation(requireAdmin, { query: wire.DeliveryQuery }),
      },
    )
    .post(
      "/console/api/deliveries/:id/redeliver",
      ({ params }) => {
        const delivery = webhooks.redeliver(params.id);
        onWebhooksChanged();
        return toDelivery(delivery);
      },
      { response: { 200: wire.Delivery }, ...adminOperation(requireAdmin) },
    );
}

function workRoutes({ transcriptions, database }: HttpDeps, { requireAdmin }: Guard) {
  const answer = { response: { 200: wire.AdminTranscription } };
  return defineRoutes("console-work")
    .get(
      "/console/api/transcriptions",
      ({ query }) => {
        const { limit = DEFAULT_PAGE_SIZE, after, project_id: projectId, state } = query;
        const rows = listPageOfAll(database.store, {
          limit: limit + 1,
          ...(after === undefined ? {} : { after }),
          ...(projectId === undefined ? {} : { projectId }),
          ...(state === undefined ? {} : { states: statesOf(state) }),
        });
        return pageOf(rows.map(toTranscription), limit, (row) => row.id);
      },
      {
        response: { 200: wire.AdminTranscriptionList },
        ...adminOperation(requireAdmin, { query: wire.AdminTranscriptionQuery }),
      },
    )
    .get(
      "/console/api/transcriptions/:id",
      ({ params }) => {
        const row = transcriptions.find(params.id);
        if (!row) throw new AppError("not_found");
        return toTranscription(row);
      },
      { ...answer, ...adminOperation(requireAdmin) },
    )
    .post(
      "/console/api/transcriptions/:id/cancel",
      ({ params }) => toTranscription(transcriptions.cancelById(params.id)),
      { ...answer, ...adminOperation(requireAdmin) },
    );
}
