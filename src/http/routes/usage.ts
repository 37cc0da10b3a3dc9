import { toSeconds, toTimestamp } from "../../lib/time.ts";
import { requireOrganization } from "../../store/organizations.ts";
import { listUsageEvents, type UsageEventRow } from "../../store/usage.ts";
import type { HttpDeps } from "../deps.ts";
import { defineKeyedRoutes, operation } from "../route.ts";
import { DEFAULT_PAGE_SIZE } from "../wire/paging.ts";
import { Usage, type UsageEvent, UsageQuery } from "../wire/schemas.ts";

/** Usage events and credit (docs/interface.md section 4.12); needs the scope `usage:read`. */
export function usageRoutes({ database, credit }: HttpDeps) {
  return defineKeyedRoutes("usage").get(
    "/v1/usage",
    ({ caller, query }): Usage => {
      const { limit = DEFAULT_PAGE_SIZE, after } = query;
      const page = listUsageEvents(database.store, caller, {
        limit,
        ...(after === undefined ? {} : { after }),
      });
      const organization = requireOrganization(database.store, caller.organizationId);
      const { balancePaise, reservedPaise, availablePaise } = credit.show(caller.organizationId);
      return {
        object: "usage",
        currency: "INR",
        price_paise_per_audio_hour: credit.priceOf(organization),
        credit: {
          balance_paise: balancePaise,
          reserved_paise: reservedPaise,
          available_paise: availablePaise,
        },
        data: page.data.map(toResponse),
        next: page.next,
      };
    },
    {
      response: { 200: Usage },
      ...operation({
        id: "getUsage",
        summary: "Usage events and credit",
        description: "Credit belongs to the organization; events are those of the key's project.",
        tag: "Usage",
        scope: "usage:read",
        query: UsageQuery,
        errors: [],
        responses: { 200: "Credit, and a page of usage events, newest first." },
      }),
    },
  );
}

function toResponse(row: UsageEventRow): UsageEvent {
  return {
    id: row.id,
    object: "usage_event",
    transcription_id: row.transcriptionId,
    model: row.modelId,
    state: row.state,
    audio_seconds: toSeconds(row.audioMs),
    billed_seconds: toSeconds(row.billedMs),
    channels: row.channels,
    amount_paise: row.amountPaise,
    created_at: toTimestamp(row.createdAt),
  };
}
