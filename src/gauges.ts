import { statSync } from "node:fs";
import type { Engine } from "./engine/engine.ts";
import type { Metrics } from "./http/metrics.ts";
import type { Deliverer } from "./scheduler/deliver.ts";
import type { Scheduler } from "./scheduler/scheduler.ts";
import type { Database } from "./store/database.ts";

/** Numbers of the running program beside its requests, read when `GET /metrics` asks. */
export function addGauges(
  metrics: Metrics,
  parts: { scheduler: Scheduler; deliverer: Deliverer; engine: Engine; database: Database },
): void {
  const { scheduler, deliverer, engine, database } = parts;
  metrics.addLabelledGauge(
    "shruti_transcriptions_unfinished",
    "Transcriptions that are not finished, by state.",
    "state",
    () => scheduler.status().states.map(({ state, count }): [string, number] => [state, count]),
  );
  metrics.addGauge(
    "shruti_engine_places",
    "Chunks that can be decoded side by side.",
    () => scheduler.status().slots.workers,
  );
  metrics.addGauge(
    "shruti_engine_places_busy",
    "Chunks being decoded.",
    () => scheduler.status().slots.running,
  );
  metrics.addGauge(
    "shruti_engine_real_time_factor",
    "Audio decoded per time of one worker, as a ratio; 0 before the first chunk.",
    () => scheduler.status().realTimeFactor ?? 0,
  );
  metrics.addGauge("shruti_queue_empty_in_seconds", "Estimate of when all accepted work is done.", () =>
    Math.round(scheduler.status().emptyInMs / 1000),
  );
  metrics.addLabelledGauge(
    "shruti_engine_worker_restarts",
    "Workers that ended unexpectedly, by model.",
    "model",
    () => engine.status().models.map(({ modelId, restarts }): [string, number] => [modelId, restarts]),
  );
  metrics.addGauge("shruti_database_bytes", "Size of the database file.", () => statSync(database.path).size);
  const deliveries = () =>
    Object.entries(deliverer.metrics()).map(([name, value]): [string, number] => [name, value]);
  metrics.addLabelledGauge(
    "shruti_webhooks",
    "Webhook deliveries: attempts, failures, what waits, age of the oldest.",
    "what",
    deliveries,
  );
}
