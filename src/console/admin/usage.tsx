import { type Signal, useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { UsageDays } from "../../http/wire/console.ts";
import { BASE } from "../lib/address.ts";
import { Icon } from "../parts/icons.tsx";
import { length, money } from "../words/format.ts";
import { words } from "../words/words.ts";
import { useLoaded } from "./admin-session.ts";
import { Chart } from "./chart.tsx";
import { Shown } from "./parts.tsx";

/** What an organization used, day by day: a chart, and the same as a file. */
export function UsageByDay({ id }: { id: string }) {
  const t = words.value.admin;
  // Until days are chosen, the server takes the last 30. Only it knows which day it is in `billing.timezone`.
  const from = useSignal("");
  const to = useSignal("");
  const chosen = Object.entries({ from: from.value, to: to.value }).filter(([, day]) => day !== "");
  const query = new URLSearchParams(chosen).toString();
  const loaded = useLoaded<UsageDays>(`organizations/${id}/usage?${query}`);
  const days = loaded.data?.days;
  return (
    <section>
      <div class="section-head">
        <h2>{t.usage}</h2>
        <span class="row">
          <DayField label={t.from} chosen={from} shown={days?.at(0)?.day} />
          <DayField label={t.to} chosen={to} shown={days?.at(-1)?.day} />
          <a
            class="button"
            href={new URL(`console/api/organizations/${id}/usage.csv?${query}`, BASE).href}
            download
          >
            <Icon name="download" /> {t.csv}
          </a>
        </span>
      </div>
      <Shown of={loaded}>{(data) => <Days days={data.days} />}</Shown>
    </section>
  );
}

type DayFieldProps = {
  label: string;
  /** Empty: none was chosen. */
  chosen: Signal<string>;
  /** The day that is shown when none was chosen. */
  shown: string | undefined;
};

function DayField({ label, chosen, shown }: DayFieldProps) {
  return (
    <label class="row">
      <span class="muted">{label}</span>
      <input
        type="date"
        value={chosen.value || shown}
        onChange={({ currentTarget }) => {
          if (currentTarget.value !== "") chosen.value = currentTarget.value;
        }}
      />
    </label>
  );
}

function Days({ days }: { days: UsageDays["days"] }) {
  const t = words.value.admin;
  const { at, hours, rupees } = useMemo(
    () => ({
      at: days.map(({ day }) => Date.parse(`${day}T00:00:00Z`) / 1000),
      hours: [
        { label: "h", colour: "accent" as const, values: days.map((one) => one.billed_seconds / 3600) },
      ],
      rupees: [{ label: "₹", colour: "accent" as const, values: days.map((one) => one.amount_paise / 100) }],
    }),
    [days],
  );
  const seconds = days.reduce((sum, one) => sum + one.billed_seconds, 0);
  const paise = days.reduce((sum, one) => sum + one.amount_paise, 0);
  return (
    <>
      <p>{t.usageTotal(length(seconds), money(paise))}</p>
      <div class="charts">
        <Chart title={t.usageHours} at={at} series={hours} isBars digits={1} />
        <Chart title={t.usageRupees} at={at} series={rupees} isBars digits={1} />
      </div>
    </>
  );
}
