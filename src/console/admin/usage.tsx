import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { UsageDays } from "../../http/wire/console.ts";
import { BASE } from "../lib/address.ts";
import { length, money } from "../lib/format.ts";
import { Icon } from "../parts/icons.tsx";
import { words } from "../words/words.ts";
import { useLoaded } from "./admin-session.ts";
import { Chart } from "./chart.tsx";
import { Shown } from "./parts.tsx";

const DAYS = 30;
const DAY_MS = 86_400_000;

const isoDay = (ms: number) => new Date(ms).toISOString().slice(0, 10);

/** What an organization used, day by day: a chart, and the same as a file. */
export function UsageByDay({ id }: { id: string }) {
  const t = words.value.admin;
  const from = useSignal(isoDay(Date.now() - (DAYS - 1) * DAY_MS));
  const to = useSignal(isoDay(Date.now()));
  const query = `from=${from.value}&to=${to.value}`;
  const loaded = useLoaded<UsageDays>(`organizations/${id}/usage?${query}`);
  return (
    <section>
      <div class="section-head">
        <h2>{t.usage}</h2>
        <span class="row">
          <DayField label={t.from} value={from} />
          <DayField label={t.to} value={to} />
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

function DayField({ label, value }: { label: string; value: { value: string } }) {
  return (
    <label class="row">
      <span class="muted">{label}</span>
      <input
        type="date"
        value={value.value}
        onChange={({ currentTarget }) => {
          if (currentTarget.value !== "") value.value = currentTarget.value;
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
