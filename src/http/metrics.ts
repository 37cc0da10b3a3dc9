import { Counter, Gauge, Histogram, Registry } from "prom-client";

export type AnsweredRequest = {
  method: string;
  /** The route's template, never a path with identifiers in it. */
  route: string;
  status: number;
  seconds: number;
};

type ReadLabelled = () => Iterable<[labelValue: string, value: number]>;

/** The numbers behind `GET /metrics`. Each `read` is called when the page is asked for. */
export type Metrics = {
  /** Counts an answered request and its duration. */
  observeRequest(request: AnsweredRequest): void;
  /** Adds a gauge. */
  addGauge(name: string, help: string, read: () => number): void;
  /** Adds a gauge with one value for each value of a label. */
  addLabelledGauge(name: string, help: string, label: string, read: ReadLabelled): void;
  /** Adds a number that only rises and is counted elsewhere; its name ends in `_total`. */
  addCounter(name: string, help: string, read: () => number): void;
  /** Adds such a number with one value for each value of a label. */
  addLabelledCounter(name: string, help: string, label: string, read: ReadLabelled): void;
  /** Writes all of them as Prometheus text. */
  render(): Promise<{ contentType: string; text: string }>;
};

const DURATION_BUCKETS_SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120];

/** Makes the metrics of one server, with a registry of their own. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const requests = new Counter({
    name: "shruti_http_requests_total",
    help: "Requests answered, by route and status.",
    labelNames: ["method", "route", "status"],
    registers: [registry],
  });
  const durations = new Histogram({
    name: "shruti_http_request_duration_seconds",
    help: "Time from a request's head to its response's head.",
    labelNames: ["method", "route"],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });

  return {
    observeRequest({ method, route, status, seconds }) {
      requests.inc({ method, route, status });
      durations.observe({ method, route }, seconds);
    },

    addGauge(name, help, read) {
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          this.set(read());
        },
      });
    },

    addLabelledGauge(name, help, label, read) {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers: [registry],
        collect() {
          this.reset();
          for (const [value, number] of read()) this.set({ [label]: value }, number);
        },
      });
    },

    addLabelledCounter(name, help, label, read) {
      new Counter({
        name,
        help,
        labelNames: [label],
        registers: [registry],
        collect() {
          this.reset();
          for (const [value, number] of read()) this.inc({ [label]: value }, number);
        },
      });
    },

    addCounter(name, help, read) {
      new Counter({
        name,
        help,
        registers: [registry],
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    },

    async render() {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}
