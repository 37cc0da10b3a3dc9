import { useSignal } from "@preact/signals";
import type { Granted, LedgerEntry, LedgerList, Organization } from "../../http/wire/console.ts";
import { linkTo } from "../lib/address.ts";
import { announce } from "../parts/announce.tsx";
import { Icon } from "../parts/icons.tsx";
import { bytes, count, moment, money } from "../words/format.ts";
import { words } from "../words/words.ts";
import { adminAsk, type Loaded, useLoaded } from "./admin-session.ts";
import { Keys } from "./keys.tsx";
import { limitOf, organizationFields, paiseOf, settingsOf, sizeLimitOf } from "./organizations.tsx";
import { ActButton, FormDialog, Shown, Table } from "./parts.tsx";
import { UsageByDay } from "./usage.tsx";

/** One organization: credit, price and limits, usage, projects and keys. */
export function OrganizationView({ id }: { id: string }) {
  const loaded = useLoaded<Organization>(`organizations/${id}`);
  const ledger = useLoaded<LedgerList>(`organizations/${id}/ledger?limit=20`);
  const reload = async () => {
    await Promise.all([loaded.reload(), ledger.reload()]);
  };
  return (
    <Shown of={loaded}>
      {(one) => (
        <>
          <Head one={one} reload={reload} />
          <UsageByDay id={id} />
          <Keys organizationId={id} />
          <Ledger ledger={ledger} />
        </>
      )}
    </Shown>
  );
}

type HeadProps = { one: Organization; reload: () => Promise<void> };

function Head({ one, reload }: HeadProps) {
  const t = words.value.admin;
  const open = useSignal<"settings" | "grant" | undefined>(undefined);
  const close = () => {
    open.value = undefined;
  };
  const path = `organizations/${one.id}`;
  const toggle = async () => {
    await adminAsk(`${path}/${one.disabled ? "enable" : "disable"}`, { method: "POST" });
    await reload();
  };
  return (
    <section>
      <div class="section-head">
        <h2>
          <a href={linkTo("admin", "organizations")}>{t.views.organizations}</a> / {one.name}
          {one.disabled && <span class="tag tag-unsure">{t.disabled}</span>}
        </h2>
        <span class="row">
          <button
            type="button"
            class="primary"
            onClick={() => {
              open.value = "grant";
            }}
          >
            {t.grant}
          </button>
          <button
            type="button"
            onClick={() => {
              open.value = "settings";
            }}
          >
            {t.change}
          </button>
          {one.disabled ? (
            <ActButton label={t.enable} act={toggle} />
          ) : (
            <ActButton label={t.disable} act={toggle} question={t.disableSure(one.name)} />
          )}
        </span>
      </div>
      <Settings one={one} />
      {open.value === "grant" && <GrantForm {...{ one, reload, close }} />}
      {open.value === "settings" && (
        <FormDialog
          title={t.settings}
          submit={t.save}
          fields={organizationFields(one)}
          onClose={close}
          onSubmit={async (values) => {
            const body = { name: values.name ?? one.name, ...settingsOf(values) };
            await adminAsk(path, { method: "PATCH", body });
            await reload();
          }}
        />
      )}
    </section>
  );
}

function Settings({
  one: { credit, effective, weight, stored_bytes: stored, ...own },
}: {
  one: Organization;
}) {
  const t = words.value.admin;
  const source = (value: number | null) => (value === null ? ` (${t.fromConfig})` : "");
  const facts: [string, string][] = [
    [t.credit, `${money(credit.available_paise)} (${money(credit.reserved_paise)} ${t.reserved})`],
    [t.price, money(effective.price_paise_per_audio_hour) + source(own.price_paise_per_audio_hour)],
    [t.dailyLimit, limitOf(effective.daily_spend_limit_paise) + source(own.daily_spend_limit_paise)],
    [t.maxQueued, count(effective.max_queued) + source(own.max_queued)],
    [t.perSecond, count(effective.requests_per_second) + source(own.requests_per_second)],
    [t.stored, bytes(stored)],
    [t.storedAtMost, sizeLimitOf(effective.max_stored_bytes) + source(own.max_stored_bytes)],
    [t.weight, count(weight)],
  ];
  return (
    <dl class="settings">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function GrantForm({ one, reload, close }: HeadProps & { close: () => void }) {
  const t = words.value.admin;
  return (
    <FormDialog
      title={t.grant}
      submit={t.grant}
      fields={[
        { name: "amount", label: t.amount, type: "rupees", help: t.amountHelp, isRequired: true },
        { name: "note", label: t.note },
      ]}
      onClose={close}
      onSubmit={async ({ amount = "", note = "" }) => {
        const body = { amount_paise: paiseOf(amount), ...(note === "" ? {} : { note }) };
        const { entry } = await adminAsk<Granted>(`organizations/${one.id}/grants`, { method: "POST", body });
        announce(t.granted(money(entry.amount_paise)));
        await reload();
      }}
    />
  );
}

function Ledger({ ledger }: { ledger: Loaded<LedgerList> }) {
  const t = words.value.admin;
  const more = useSignal<readonly LedgerEntry[]>([]);
  const next = useSignal<string | null | undefined>(undefined);
  const after = next.value === undefined ? ledger.data?.next : next.value;
  const organization = location.hash.split("/").at(-1);
  const loadMore = async () => {
    const page = await adminAsk<LedgerList>(`organizations/${organization}/ledger?limit=50&after=${after}`);
    more.value = [...more.value, ...page.data];
    next.value = page.next;
  };
  return (
    <section>
      <h2>{t.ledger}</h2>
      <Shown of={ledger}>
        {({ data }) => (
          <Table
            label={t.ledger}
            rows={[...data, ...more.value]}
            keyOf={({ sequence }) => String(sequence)}
            empty={t.nothingThere}
            columns={[
              { title: t.number, isNumber: true, cell: ({ sequence }) => sequence },
              { title: t.event, cell: ({ kind }) => t.ledgerKinds[kind] ?? kind },
              { title: t.amountOf, isNumber: true, cell: (row) => money(row.amount_paise) },
              {
                title: t.note,
                cell: ({ note, transcription_id: id }) => note ?? (id === null ? "" : <code>{id}</code>),
              },
              { title: t.created, cell: (row) => moment(row.created_at) },
            ]}
          />
        )}
      </Shown>
      {after != null && (
        <p>
          <button type="button" onClick={() => void loadMore()}>
            <Icon name="down" /> {words.value.more}
          </button>
        </p>
      )}
    </section>
  );
}
