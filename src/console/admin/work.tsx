import { useSignal } from "@preact/signals";
import type {
  AdminTranscription,
  AdminTranscriptionList,
  ConsoleEndpointList,
  ConsoleModelList,
  DeliveryList,
  Redelivered,
} from "../../http/wire/console.ts";
import { announce } from "../parts/announce.tsx";
import { SaidInEnglish } from "../parts/said-in-english.tsx";
import { StateMark } from "../transcriptions/list.tsx";
import { FILTERS, type Filter, now } from "../transcriptions/transcriptions.ts";
import { ago, bytes, clock, count, languageName, moment, percent } from "../words/format.ts";
import { words } from "../words/words.ts";
import { adminAsk, useLoaded } from "./admin-session.ts";
import { ActButton, Day, Shown, Table } from "./parts.tsx";

const REFRESH_MS = 5000;
const PAGE = 50;
const FINISHED: ReadonlySet<string> = new Set([...FILTERS.done, ...FILTERS.failed]);

/** Transcriptions of all projects by ID, with their errors and without their words. */
export function Transcriptions() {
  const t = words.value.admin;
  const which = useSignal<Filter>("all");
  const older = useSignal<readonly string[]>([]);
  const states = FILTERS[which.value];
  const after = older.value.at(-1);
  const query = [
    `limit=${PAGE}`,
    ...(states.length === 0 ? [] : [`state=${states.join(",")}`]),
    ...(after === undefined ? [] : [`after=${after}`]),
  ];
  const list = useLoaded<AdminTranscriptionList>(`transcriptions?${query.join("&")}`, REFRESH_MS);
  return (
    <section>
      <div class="section-head">
        <h2>{t.views.transcriptions}</h2>
        <fieldset class="filters" aria-label={words.value.list.filterLabel}>
          {(Object.keys(FILTERS) as Filter[]).map((one) => (
            <button
              key={one}
              type="button"
              aria-pressed={which.value === one}
              onClick={() => {
                which.value = one;
                older.value = [];
              }}
            >
              {words.value.list.filters[one]}
            </button>
          ))}
        </fieldset>
      </div>
      <Shown of={list}>{({ data }) => <TranscriptionTable rows={data} onChange={list.reload} />}</Shown>
      <p class="row">
        {older.value.length > 0 && (
          <button
            type="button"
            onClick={() => {
              older.value = older.value.slice(0, -1);
            }}
          >
            ←
          </button>
        )}
        {list.data?.next != null && (
          <button
            type="button"
            onClick={() => {
              older.value = [...older.value, list.data?.next ?? ""];
            }}
          >
            {words.value.list.older}
          </button>
        )}
      </p>
    </section>
  );
}

type TranscriptionTableProps = { rows: readonly AdminTranscription[]; onChange: () => Promise<void> };

function TranscriptionTable({ rows, onChange }: TranscriptionTableProps) {
  const t = words.value.admin;
  return (
    <Table
      label={t.views.transcriptions}
      rows={rows}
      keyOf={({ id }) => id}
      empty={t.noTranscriptions}
      columns={[
        { title: "ID", cell: ({ id }) => <code>{id}</code> },
        {
          title: t.state,
          cell: ({ state, progress }) => (
            <span class="numbers">
              <StateMark state={state} />
              {!FINISHED.has(state) && progress > 0 && ` ${percent(progress)}`}
            </span>
          ),
        },
        { title: t.length, isNumber: true, cell: (row) => clock(row.duration_seconds) },
        { title: t.language, cell: ({ language }) => languageName(language) },
        { title: t.model, cell: ({ model }) => <span class="numbers">{model}</span> },
        { title: t.project, cell: (row) => <code title={row.project_id}>…{row.project_id.slice(-6)}</code> },
        {
          title: t.created,
          cell: (row) => (
            <span class="numbers" title={moment(row.created_at)}>
              {ago(row.created_at, now.value)}
            </span>
          ),
        },
        {
          title: t.error,
          cell: ({ id, state, error }) =>
            error ? (
              <div class="error">
                <code>{error.code}</code> <SaidInEnglish>{error.message}</SaidInEnglish>
              </div>
            ) : (
              !FINISHED.has(state) && (
                <ActButton
                  label={t.cancelWork}
                  question={t.cancelSure(id)}
                  act={async () => {
                    await adminAsk(`transcriptions/${id}/cancel`, { method: "POST" });
                    await onChange();
                  }}
                />
              )
            ),
        },
      ]}
    />
  );
}

const namesOf = (codes: readonly string[]) => codes.map((code) => languageName(code)).join(", ");

/** Installed models, and files that cannot be used. */
export function Models() {
  const t = words.value.admin;
  const list = useLoaded<ConsoleModelList>("models");
  return (
    <section>
      <h2>{t.views.models}</h2>
      <p class="muted">{t.modelsHelp}</p>
      <Shown of={list}>
        {({ data, problems }) => (
          <>
            <Table
              label={t.views.models}
              rows={data}
              keyOf={({ id }) => id}
              empty={t.nothingThere}
              columns={[
                { title: t.name, cell: ({ name, id }) => <span title={name}>{id}</span> },
                { title: t.version, cell: ({ version }) => version },
                { title: t.family, cell: ({ family }) => family },
                { title: t.size, isNumber: true, cell: (model) => bytes(model.bytes) },
                { title: t.languages, cell: ({ languages }) => namesOf(languages.map(({ code }) => code)) },
                {
                  title: t.standard,
                  cell: (model) => (model.default ? t.standard : namesOf(model.default_languages)),
                },
                { title: t.licence, cell: ({ licence }) => licence },
                { title: t.source, cell: ({ source }) => source },
              ]}
            />
            {problems.length > 0 && (
              <div class="note">
                <h3>{t.modelProblems}</h3>
                {problems.map((problem) => (
                  <SaidInEnglish key={problem}>{problem}</SaidInEnglish>
                ))}
              </div>
            )}
          </>
        )}
      </Shown>
    </section>
  );
}

/** Webhook endpoints, and events that did not arrive. */
export function Webhooks() {
  const endpoints = useLoaded<ConsoleEndpointList>("webhook_endpoints", REFRESH_MS);
  const deliveries = useLoaded<DeliveryList>(`deliveries?state=failed&limit=${PAGE}`, REFRESH_MS);
  const reload = async () => {
    await Promise.all([endpoints.reload(), deliveries.reload()]);
  };
  return (
    <>
      <Shown of={endpoints}>{({ data }) => <Endpoints rows={data} onChange={reload} />}</Shown>
      <Shown of={deliveries}>{({ data }) => <Deliveries rows={data} onChange={reload} />}</Shown>
    </>
  );
}

type EndpointsProps = { rows: ConsoleEndpointList["data"]; onChange: () => Promise<void> };

function Endpoints({ rows, onChange }: EndpointsProps) {
  const t = words.value.admin;
  const redeliver = async (id: string) => {
    const { events } = await adminAsk<Redelivered>(`webhook_endpoints/${id}/redeliver`, { method: "POST" });
    announce(t.redelivered(count(events)));
    await onChange();
  };
  const turn = async (id: string, act: "enable" | "disable") => {
    await adminAsk(`webhook_endpoints/${id}/${act}`, { method: "POST" });
    await onChange();
  };
  return (
    <section>
      <h2>{t.endpoints}</h2>
      <Table
        label={t.endpoints}
        rows={rows}
        keyOf={({ id }) => id}
        empty={t.noEndpoints}
        columns={[
          { title: t.url, cell: ({ url }) => url },
          {
            title: t.state,
            cell: ({ state, disabled_reason: reason }) => (
              <span title={reason ?? ""}>
                {state === "enabled" ? t.enabled : `${t.disabled} · ${reason ?? ""}`}
              </span>
            ),
          },
          { title: t.alsoEvents, cell: ({ events }) => (events.length > 0 ? events.join(", ") : "–") },
          { title: t.pending, isNumber: true, cell: (row) => count(row.pending) },
          { title: t.failedDeliveries, isNumber: true, cell: (row) => count(row.failed) },
          { title: t.created, cell: (row) => <Day of={row.created_at} /> },
          {
            title: t.change,
            cell: ({ id, url, state, failed }) => (
              <span class="row">
                {state === "disabled" ? (
                  <ActButton label={t.enable} act={() => turn(id, "enable")} />
                ) : (
                  <ActButton
                    label={t.disable}
                    act={() => turn(id, "disable")}
                    question={t.disableEndpointSure(url)}
                  />
                )}
                {failed > 0 && <ActButton label={t.redeliverAll} act={() => redeliver(id)} />}
              </span>
            ),
          },
        ]}
      />
    </section>
  );
}

function Deliveries({ rows, onChange }: { rows: DeliveryList["data"]; onChange: () => Promise<void> }) {
  const t = words.value.admin;
  return (
    <section>
      <h2>{t.deliveries}</h2>
      <Table
        label={t.deliveries}
        rows={rows}
        keyOf={({ event_id: id }) => id}
        empty={t.noDeliveries}
        columns={[
          { title: t.event, cell: ({ event_id: id, type }) => <span title={id}>{type}</span> },
          { title: t.views.transcriptions, cell: (row) => <code>{row.transcription_id ?? "–"}</code> },
          { title: t.attempts, isNumber: true, cell: ({ attempts }) => count(attempts) },
          { title: t.reason, cell: ({ reason, last_status: status }) => `${reason ?? ""} ${status ?? ""}` },
          { title: t.created, cell: (row) => moment(row.created_at) },
          {
            title: t.redeliver,
            cell: ({ event_id: id }) => (
              <ActButton
                label={t.redeliver}
                act={async () => {
                  await adminAsk(`deliveries/${id}/redeliver`, { method: "POST" });
                  await onChange();
                }}
              />
            ),
          },
        ]}
      />
    </section>
  );
}
