import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import type { Overview as OverviewData, Series } from "../../http/wire/console.ts";
import { linkTo } from "../lib/address.ts";
import { Icon } from "../parts/icons.tsx";
import { SaidInEnglish } from "../parts/said-in-english.tsx";
import { bytes, count, length, moment } from "../words/format.ts";
import { words } from "../words/words.ts";
import { useLoaded } from "./admin-session.ts";
import { Chart, type ChartSeries } from "./chart.tsx";
import { Shown, Table } from "./parts.tsx";

const REFRESH_MS = 3000;
const CHARTS_REFRESH_MS = 30_000;

/** Whether the appliance is well, at a glance. */
export function Overview() {
  const overview = useLoaded<OverviewData>("overview", REFRESH_MS);
  return (
    <>
      <Shown of={overview}>
        {(data) => (
          <>
            <Readiness data={data} />
            <Figures data={data} />
          </>
        )}
      </Shown>
      <Charts />
      {overview.data && <Queue data={overview.data} />}
      {overview.data && <Workers data={overview.data} />}
    </>
  );
}

function Readiness({ data }: { data: OverviewData }) {
  const { ready, reasons, version, started_at: startedAt, now, clock } = data;
  const t = words.value.admin;
  return (
    <section class={ready ? "readiness" : "readiness failure"} role="status">
      <Icon name={ready ? "done" : "failed"} size={20} />
      <div>
        <strong>{ready ? t.ready : t.notReady}</strong>{" "}
        <span class="muted">{t.running(version, moment(startedAt))}</span>
        {reasons.length > 0 && <SaidInEnglish>{reasons.join(" ")}</SaidInEnglish>}
        {!clock.trusted && <p>{t.clockInDoubt(moment(now), moment(clock.expected))}</p>}
      </div>
    </section>
  );
}

function Figure({ name, children, note }: { name: string; children: ComponentChildren; note?: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <strong>{children}</strong>
        {note !== undefined && <span class="muted small">{note}</span>}
      </dd>
    </div>
  );
}

function Figures({ data }: { data: OverviewData }) {
  const t = words.value.admin;
  const { queue, workers, decoders, disk, memory, webhooks } = data;
  const speed = data.real_time_factor;
  return (
    <dl class="figures">
      <Figure name={t.queued}>{count(queue.queued)}</Figure>
      <Figure name={t.inWork}>{count(queue.running)}</Figure>
      <Figure name={t.emptyIn}>
        {queue.queued + queue.running === 0 ? "–" : length(queue.empty_in_seconds)}
      </Figure>
      <Figure name={t.speed}>{speed === null ? "–" : speed.toFixed(speed < 10 ? 1 : 0)}</Figure>
      <Figure name={t.places}>
        {workers.busy} / {workers.places}
      </Figure>
      <Figure name={t.decoders}>
        {decoders.busy} / {decoders.places}
      </Figure>
      <Figure name={t.restarts}>{count(data.restarts)}</Figure>
      <Figure name={t.diskFree} note={t.diskOf(bytes(disk.total_bytes), bytes(disk.reserve_bytes))}>
        {bytes(disk.free_bytes)}
      </Figure>
      <Figure name={t.memory} note={t.memoryOf(bytes(memory.available_bytes), bytes(memory.total_bytes))}>
        {bytes(memory.server_bytes)}
      </Figure>
      <Figure name={t.database}>{bytes(disk.database_bytes)}</Figure>
      <Figure name={t.webhooksWaiting} note={t.webhooksFailed(count(webhooks.failed_since_start))}>
        {count(webhooks.pending + webhooks.paused)}
      </Figure>
    </dl>
  );
}

const SPANS = ["hour", "day"] as const;
type Values = readonly (number | null)[];
const scaled = (values: Values, factor: number): Values =>
  values.map((value) => (value === null ? null : value * factor));

function Charts() {
  const t = words.value.admin;
  const span = useSignal<(typeof SPANS)[number]>("hour");
  const loaded = useLoaded<Series>(`series?span=${span.value}`, CHARTS_REFRESH_MS);
  return (
    <section aria-label={t.charts}>
      <div class="section-head">
        <h2>{t.charts}</h2>
        <fieldset class="filters" aria-label={t.charts}>
          {SPANS.map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={span.value === one}
              onClick={() => {
                span.value = one;
              }}
            >
              {t.spans[one]}
            </button>
          ))}
        </fieldset>
      </div>
      <Shown of={loaded}>{(data) => <ChartGrid data={data} />}</Shown>
    </section>
  );
}

function ChartGrid({ data }: { data: Series }) {
  const t = words.value.admin.series;
  const charts = useMemo(() => {
    const one = (label: string, values: Values, colour: ChartSeries["colour"] = "accent"): ChartSeries => ({
      label,
      values,
      colour,
    });
    return [
      { title: t.queued, series: [one(t.queued, data.queued)] },
      { title: t.busy, series: [one(t.busy, scaled(data.busy, 100))] },
      { title: t.speed, series: [one(t.speed, data.real_time_factor)], digits: 1 },
      {
        title: `${t.finished} · ${t.failed}`,
        series: [one(t.finished, data.finished), one(t.failed, data.failed, "bad")],
      },
      {
        title: `${t.requests} · ${t.serverErrors}`,
        series: [one(t.requests, data.requests), one(t.serverErrors, data.server_errors, "bad")],
      },
      { title: t.memory, series: [one(t.memory, scaled(data.server_memory_bytes, 1e-6))] },
      { title: t.disk, series: [one(t.disk, scaled(data.disk_free_bytes, 1e-9))], digits: 1 },
    ];
  }, [data, t]);
  return (
    <div class="charts">
      {charts.map((chart) => (
        <Chart key={chart.title} at={data.at} {...chart} />
      ))}
    </div>
  );
}

function Queue({ data: { queue } }: { data: OverviewData }) {
  const t = words.value.admin;
  return (
    <section>
      <h2>{t.queueOf}</h2>
      <Table
        label={t.queueOf}
        rows={queue.organizations}
        keyOf={(row) => row.organization_id}
        empty={t.queueEmpty}
        columns={[
          {
            title: t.organization,
            cell: (row) => <a href={linkTo("admin", "organizations", row.organization_id)}>{row.name}</a>,
          },
          { title: t.queued, isNumber: true, cell: (row) => count(row.queued) },
          {
            title: t.inWork,
            isNumber: true,
            cell: (row) => count(row.preparing + row.transcribing + row.finalizing),
          },
          { title: t.left, isNumber: true, cell: (row) => length(row.remaining_seconds) },
        ]}
      />
    </section>
  );
}

const Problem = ({ of }: { of: string | undefined }) =>
  of === undefined ? null : <SaidInEnglish>{of}</SaidInEnglish>;

function Workers({ data: { models } }: { data: OverviewData }) {
  const t = words.value.admin;
  return (
    <section>
      <h2>{t.workers}</h2>
      <Table
        label={t.workers}
        rows={models}
        keyOf={(row) => row.id}
        empty={t.noWorkers}
        columns={[
          { title: t.model, cell: (row) => row.id },
          { title: t.state, cell: (row) => t.workerStates[row.state] ?? row.state },
          { title: t.device, cell: (row) => row.device ?? "–" },
          { title: t.process, isNumber: true, cell: (row) => row.pid ?? "–" },
          { title: t.restarts, isNumber: true, cell: (row) => count(row.restarts) },
          { title: t.problem, cell: (row) => <Problem of={row.problem ?? row.gpu_failure} /> },
        ]}
      />
    </section>
  );
}
