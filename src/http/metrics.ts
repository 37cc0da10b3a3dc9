import { Counter, Gauge, Histogram, Registry } from "prom-client";

export type RequestFacts = {
  method: string;
  /** The route's template, never a path with identifiers in it. */
  route: string;
  status: number;
  seconds: number;
};

export type Metrics = ReturnType<typeof createMetrics>;

const DURATION_BUCKETS_SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120];

/** The numbers behind `GET /metrics`; each program has its own registry. */
export function createMetrics() {
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
    registry,

    observeRequest({ method, route, status, seconds }: RequestFacts): void {
      requests.inc({ method, route, status });
      durations.observe({ method, route }, seconds);
    },

    /**
     * A gauge that is read when somebody asks.
     *
     * @param read the value, or one value for each label value
     */
    addGauge(name: string, help: string, read: () => number): void {
      new Gauge({
        name,
        help,
        registers: [registry],
        collect() {
          this.set(read());
        },
      });
    },

    /** As `addGauge`, with one label. */
    addLabelledGauge(
      name: string,
      help: string,
      label: string,
      read: () => Iterable<[string, number]>,
    ): void {
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

    /** A number that only rises, counted elsewhere; its name ends in `_total`. One value for each label value. */
    addLabelledCounter(
      name: string,
      help: string,
      label: string,
      read: () => Iterable<[string, number]>,
    ): void {
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

    /** As `addLabelledCounter`, without a label. */
    addCounter(name: string, help: string, read: () => number): void {
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

    /** Prometheus text. */
    async render(): Promise<{ contentType: string; text: string }> {
      return { contentType: registry.contentType, text: await registry.metrics() };
    },
  };
}
