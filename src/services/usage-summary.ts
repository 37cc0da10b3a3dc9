import type { Store } from "../store/database.ts";
import { sumGrants } from "../store/ledger.ts";
import { listOrganizations, type OrganizationRow, requireOrganization } from "../store/organizations.ts";
import { sumUsage, type UsageTotals } from "../store/usage.ts";

/** What an organization used and was granted within a time, and its balance now. */
export type OrganizationUsage = Omit<UsageTotals, "organizationId"> & {
  organization: OrganizationRow;
  grantedPaise: number;
};

export type UsageSummary = {
  organizations: OrganizationUsage[];
  total: Omit<OrganizationUsage, "organization"> & { balancePaise: number };
};

const NUMBERS = [
  ...(["transcriptions", "completed", "partial", "failed", "cancelled"] as const),
  ...(["audioMs", "billedMs", "amountPaise", "grantedPaise"] as const),
];

const nothing = () =>
  Object.fromEntries(NUMBERS.map((name) => [name, 0])) as Record<(typeof NUMBERS)[number], number>;

/**
 * Sums up what all organizations used, or one. Organizations that neither used nor were granted anything are left out,
 * unless one is asked for.
 *
 * @param range epoch milliseconds, `fromMs` included, `toMs` not
 * @throws AppError `not_found` for an unknown organization
 */
export function summarizeUsage(
  store: Store,
  range: { fromMs: number; toMs: number },
  organizationId?: string,
): UsageSummary {
  const used = new Map(
    sumUsage(store, range, organizationId).map((totals) => [totals.organizationId, totals]),
  );
  const granted = sumGrants(store, range);
  const wanted =
    organizationId === undefined
      ? listOrganizations(store).filter(({ id }) => used.has(id) || granted.has(id))
      : [requireOrganization(store, organizationId)];
  const organizations = wanted.map((organization) => {
    const { organizationId: _, ...totals } = used.get(organization.id) ?? {
      ...nothing(),
      organizationId: "",
    };
    return { ...totals, grantedPaise: granted.get(organization.id) ?? 0, organization };
  });
  const total = { ...nothing(), balancePaise: 0 };
  for (const each of organizations) {
    for (const name of NUMBERS) total[name] += each[name];
    total.balancePaise += each.organization.balancePaise;
  }
  return { organizations, total };
}
