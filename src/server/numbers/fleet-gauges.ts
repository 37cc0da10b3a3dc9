import type { FleetStatus } from "../../fleet/control/fleet-status.ts";
import type { Metrics } from "../../http/metrics.ts";

/** Adds the metrics of a fleet. A server without a fleet does not have them (docs/fleet.md section 6). */
export function addFleetGauges(metrics: Metrics, status: () => FleetStatus): void {
  const present = () => status().workers.filter(({ state }) => state !== "absent");
  const byWorker = (name: string, help: string, read: (worker: FleetStatus["workers"][number]) => number) =>
    metrics.addLabelledGauge(name, help, "worker", () => present().map((each) => [each.name, read(each)]));
  metrics.addGauge("shruti_fleet_connected", "Whether the messaging server is reached, 1 or 0.", () =>
    Number(status().server.connected),
  );
  metrics.addGauge(
    "shruti_fleet_chunks",
    "Chunks that wait for a worker or run on one.",
    () => status().chunks,
  );
  byWorker("shruti_fleet_worker_places", "Chunks that a worker recognizes at once.", ({ places }) => places);
  byWorker("shruti_fleet_worker_chunks", "Chunks and untaken results of a worker.", ({ chunks }) => chunks);
  byWorker("shruti_fleet_worker_speed", "Audio per time of one place, as a ratio.", ({ speed = 0 }) => speed);
  byWorker(
    "shruti_fleet_worker_beat_age_seconds",
    "Time since the last sign of life.",
    ({ seconds_since_beat: age = 0 }) => age,
  );
  byWorker(
    "shruti_fleet_worker_refused_messages",
    "Messages of a worker that were refused.",
    ({ refused_messages }) => refused_messages,
  );
  metrics.addLabelledGauge(
    "shruti_fleet_device_places",
    "Places of working workers, by device.",
    "device",
    () => sums(status(), ({ device = "unknown" }) => [device]),
  );
  metrics.addLabelledGauge("shruti_fleet_model_places", "Places of working workers, by model.", "model", () =>
    sums(status(), ({ models }) => models),
  );
  addPreparingGauges(metrics, status, byWorker);
  metrics.addLabelledCounter("shruti_fleet_tickets_total", "Tickets since the start.", "kind", () =>
    Object.entries(status().tickets),
  );
  metrics.addLabelledCounter(
    "shruti_fleet_results_total",
    "Results of workers since the start.",
    "kind",
    () => Object.entries(status().results),
  );
  metrics.addCounter(
    "shruti_fleet_interrupted_chunks_total",
    "Chunks and recordings that were taken from a worker and repeated since the start.",
    () => status().interrupted_chunks,
  );
  metrics.addCounter(
    "shruti_fleet_lost_workers_total",
    "Workers that were lost since the start.",
    () => status().lost_workers,
  );
}

type ByWorker = (
  name: string,
  help: string,
  read: (worker: FleetStatus["workers"][number]) => number,
) => void;

/** Adds the metrics of recordings that workers prepare. */
function addPreparingGauges(metrics: Metrics, status: () => FleetStatus, byWorker: ByWorker): void {
  metrics.addGauge(
    "shruti_fleet_preparing",
    "Recordings that wait for a worker that prepares them or are prepared by one.",
    () => status().preparing,
  );
  byWorker(
    "shruti_fleet_worker_preparing_places",
    "Recordings that a worker prepares at once.",
    ({ preparing_places: places }) => places,
  );
  byWorker(
    "shruti_fleet_worker_preparing",
    "Recordings that a worker prepares now.",
    ({ preparing }) => preparing,
  );
  metrics.addLabelledCounter(
    "shruti_fleet_preparations_total",
    "Recordings by how their preparing on workers has ended, since the start.",
    "kind",
    () => Object.entries(status().preparations),
  );
}

function sums(
  { workers }: FleetStatus,
  labelsOf: (worker: FleetStatus["workers"][number]) => readonly string[],
): [string, number][] {
  const found = new Map<string, number>();
  for (const worker of workers.filter(({ state }) => state === "working")) {
    for (const label of labelsOf(worker)) found.set(label, (found.get(label) ?? 0) + worker.places);
  }
  return [...found];
}
