import { useSignal } from "@preact/signals";
import type { Organization, OrganizationChange, OrganizationList } from "../../http/wire/console.ts";
import { goTo, linkTo } from "../lib/address.ts";
import { bytes, count, money } from "../words/format.ts";
import { words } from "../words/words.ts";
import { adminAsk, useLoaded } from "./admin-session.ts";
import { Day, FormDialog, type FormField, Shown, Table } from "./parts.tsx";

const REFRESH_MS = 15_000;

/** All organizations with their credit, price and limits. */
export function Organizations() {
  const t = words.value.admin;
  const isNew = useSignal(false);
  const list = useLoaded<OrganizationList>("organizations", REFRESH_MS);
  return (
    <section>
      <div class="section-head">
        <h2>{t.views.organizations}</h2>
        <button
          type="button"
          class="primary"
          onClick={() => {
            isNew.value = true;
          }}
        >
          {t.newOrganization}
        </button>
      </div>
      <Shown of={list}>{({ data }) => <OrganizationTable rows={data} />}</Shown>
      {isNew.value && (
        <FormDialog
          title={t.newOrganization}
          submit={t.create}
          fields={organizationFields()}
          onClose={() => {
            isNew.value = false;
          }}
          onSubmit={async (values) => {
            const body = { name: values.name ?? "", ...settingsOf(values) };
            const made = await adminAsk<Organization>("organizations", { method: "POST", body });
            goTo("admin", "organizations", made.id);
          }}
        />
      )}
    </section>
  );
}

/** An amount, or the words for none. */
export function limitOf(paise: number): string {
  return paise === 0 ? words.value.admin.noLimit : money(paise);
}

/** A size, or the words for no limit. */
export function sizeLimitOf(size: number): string {
  return size === 0 ? words.value.admin.noLimit : bytes(size);
}

function OrganizationTable({ rows }: { rows: readonly Organization[] }) {
  const t = words.value.admin;
  return (
    <Table
      label={t.views.organizations}
      rows={rows}
      keyOf={({ id }) => id}
      empty={t.noOrganizations}
      columns={[
        { title: t.name, cell: ({ id, name }) => <a href={linkTo("admin", "organizations", id)}>{name}</a> },
        { title: t.state, cell: ({ disabled }) => (disabled ? t.disabled : t.enabled) },
        { title: t.credit, isNumber: true, cell: ({ credit }) => money(credit.available_paise) },
        {
          title: t.price,
          isNumber: true,
          cell: ({ effective }) => money(effective.price_paise_per_audio_hour),
        },
        {
          title: t.dailyLimit,
          isNumber: true,
          cell: ({ effective }) => limitOf(effective.daily_spend_limit_paise),
        },
        { title: t.stored, isNumber: true, cell: (row) => bytes(row.stored_bytes) },
        { title: t.weight, isNumber: true, cell: ({ weight }) => count(weight) },
        { title: t.created, cell: ({ created_at: createdAt }) => <Day of={createdAt} /> },
      ]}
    />
  );
}

const rupees = (paise: number | null | undefined) => (paise == null ? "" : String(paise / 100));
const number = (value: number | null | undefined) => (value == null ? "" : String(value));
const GIGABYTE = 1e9;
const gigabytes = (value: number | null | undefined) => (value == null ? "" : String(value / GIGABYTE));

/** The fields of an organization's form; amounts are in rupees, sizes in gigabytes. */
export function organizationFields(one?: Organization): FormField[] {
  const t = words.value.admin;
  const optional = { type: "number", placeholder: t.fromConfig } as const;
  const inRupees = { ...optional, type: "rupees" } as const;
  return [
    { name: "name", label: t.name, value: one?.name ?? "", isRequired: true },
    { name: "price", label: `${t.price} (₹)`, value: rupees(one?.price_paise_per_audio_hour), ...inRupees },
    { name: "daily", label: `${t.dailyLimit} (₹)`, value: rupees(one?.daily_spend_limit_paise), ...inRupees },
    { name: "queued", label: t.maxQueued, value: number(one?.max_queued), ...optional },
    { name: "perSecond", label: t.perSecond, value: number(one?.requests_per_second), ...optional },
    {
      name: "stored",
      label: `${t.storedAtMost} (GB)`,
      value: gigabytes(one?.max_stored_bytes),
      ...optional,
      type: "decimal",
    },
    { name: "weight", label: t.weight, type: "number", value: number(one?.weight ?? 1), help: t.weightHelp },
  ];
}

/** Rupees as a person types them, in paise. */
export const paiseOf = (text: string): number => Math.round(Number(text) * 100);

/** What a form says about settings; an empty field returns to the config's value. */
export function settingsOf({
  price = "",
  daily = "",
  queued = "",
  perSecond = "",
  stored = "",
  weight = "",
}: Record<string, string>) {
  const orConfig = (text: string, read: (text: string) => number) => (text === "" ? null : read(text));
  return {
    price_paise_per_audio_hour: orConfig(price, paiseOf),
    daily_spend_limit_paise: orConfig(daily, paiseOf),
    max_queued: orConfig(queued, Number),
    requests_per_second: orConfig(perSecond, Number),
    max_stored_bytes: orConfig(stored, (text) => Math.round(Number(text) * GIGABYTE)),
    ...(weight === "" ? {} : { weight: Number(weight) }),
  } satisfies OrganizationChange;
}
