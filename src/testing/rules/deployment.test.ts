import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv from "ajv";
import packageJson from "../../../package.json" with { type: "json" };
import { REPOSITORY, USER } from "../../../scripts/release/image/image.ts";
import { loadConfig } from "../../config/load.ts";

/** Checks the chart, the file for Compose and the role in ops/. Templates are rendered where Helm is installed. */

const OPS = join(import.meta.dir, "../../../ops");
const CHART = join(OPS, "helm/shruti");
const read = (name: string) => readFileSync(join(OPS, name), "utf8");
const yaml = <T>(name: string) => Bun.YAML.parse(read(name)) as T;
const folder = mkdtempSync(join(tmpdir(), "shruti-deployment-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("the chart", () => {
  const isValid = new Ajv().compile(JSON.parse(read("helm/shruti/values.schema.json")));
  type Values = Record<string, Record<string, unknown>>;
  const values = () => yaml<Values>("helm/shruti/values.yaml");

  test("is for this version, and its values have the form that it asks for", () => {
    const chart = yaml<{ version: string; appVersion: string }>("helm/shruti/Chart.yaml");
    expect(chart).toMatchObject({ version: packageJson.version, appVersion: packageJson.version });
    expect(values().image?.repository).toBe(REPOSITORY);
    expect([isValid(values()), isValid.errors]).toEqual([true, null]);
  });

  const wrong: [name: string, change: (values: Values) => void][] = [
    ["a mistyped value", (given) => Object.assign(given.server ?? {}, { replicas: 2 })],
    [
      "an address with a slash at its end",
      ({ server }) => Object.assign(server ?? {}, { baseUrl: "https://x/" }),
    ],
    ["a fleet without encryption", ({ fleet }) => Object.assign(fleet ?? {}, { baseUrl: "http://x" })],
    ["a worker without its files", (given) => Object.assign(given, { workers: [{ name: "a" }] })],
    ["a size without a unit", ({ storage }) => Object.assign(storage ?? {}, { size: "50" })],
  ];
  for (const [name, change] of wrong) {
    test(`refuses ${name}`, () => {
      const given = values();
      change(given);
      expect(isValid(given)).toBe(false);
    });
  }
});

test("the file for Compose starts the image as it is meant, and its variables are settings", () => {
  type Service = {
    image: string;
    read_only: boolean;
    cap_drop: string[];
    command?: string[];
    environment?: Record<string, string>;
  };
  const { services } = yaml<{ services: Record<string, Service> }>("compose/compose.yaml");
  expect(Object.keys(services)).toEqual(["init", "server"]);
  for (const { image, read_only, cap_drop } of Object.values(services)) {
    expect(image).toStartWith(`${REPOSITORY}:`);
    expect({ read_only, cap_drop }).toEqual({ read_only: true, cap_drop: ["ALL"] });
  }
  const token = join(folder, "token");
  writeFileSync(token, "of-a-file");
  const environment = services.server?.environment ?? {};
  const there = Object.fromEntries(Object.keys(environment).map((name) => [name, token]));
  expect(loadConfig(undefined, there).metrics.token).toBe("of-a-file");
});

const helm = Bun.which("helm");
type Resource = {
  kind: string;
  metadata: { name: string };
  spec: { template: { spec: PodSpec }; podManagementPolicy?: string; publishNotReadyAddresses?: boolean };
};
type PodSpec = { containers: Container[]; initContainers?: Container[]; securityContext: object };
type Container = {
  args: string[];
  env?: { name: string; value: string }[];
  securityContext: object;
  volumeMounts: { name: string }[];
};

function render(...options: string[]): { code: number; said: string; resources: Resource[] } {
  // A helm that was built from source takes an old Kubernetes for granted.
  const command = [helm ?? "helm", "template", "shruti", CHART, "--kube-version", "1.31.0", ...options];
  const { exitCode, stdout, stderr } = Bun.spawnSync(command);
  const documents = exitCode === 0 ? stdout.toString().split(/^---$/m) : [];
  const resources = documents.map((text) => Bun.YAML.parse(text) as Resource | null);
  return { code: exitCode, said: String(stderr), resources: resources.filter((each) => each !== null) };
}

const EVERYTHING = [
  ...[
    "--set",
    "server.baseUrl=https://shruti.example,secrets.tls.name=tls,secrets.metricsToken.name=metrics",
  ],
  ...["--set", "ingress.enabled=true,ingress.host=shruti.example,ingress.tlsSecretName=tls"],
  ...["--set", "fleet.nats[0]=tls://nats.example:4222,fleet.baseUrl=https://fleet.example:8443"],
  ...["--set", "workers[0].name=a,workers[0].secretName=a,workers[1].name=b,workers[1].secretName=b"],
];

describe.skipIf(helm === null)("with Helm (needs helm)", () => {
  test("helm lint finds nothing", () => {
    const { exitCode, stdout } = Bun.spawnSync([helm ?? "helm", "lint", "--strict", CHART, ...EVERYTHING]);
    expect([exitCode, exitCode === 0 ? "" : String(stdout)]).toEqual([0, ""]);
  }, 30_000);

  test("all pods run without rights, and their variables are settings", () => {
    const { resources } = render(...EVERYTHING);
    const kinds = resources.map(({ kind }) => kind).sort();
    expect(kinds).toEqual([
      ...[
        "ConfigMap",
        "Deployment",
        "Deployment",
        "Ingress",
        "PersistentVolumeClaim",
        "Service",
        "Service",
        "StatefulSet",
      ],
    ]);
    for (const { spec } of resources.filter(({ kind }) => /Set|Deployment/.test(kind))) {
      const pod = spec.template.spec;
      expect(pod).toMatchObject({
        securityContext: { runAsNonRoot: true, runAsUser: USER, fsGroup: USER },
        automountServiceAccountToken: false,
        enableServiceLinks: false,
      });
      for (const { securityContext, env = [] } of [...pod.containers, ...(pod.initContainers ?? [])]) {
        expect(securityContext).toMatchObject({
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
        const given = Object.fromEntries(env.map(({ name, value }) => [name, value]));
        if (given.SHRUTI_METRICS_TOKEN_FILE !== undefined) {
          given.SHRUTI_METRICS_TOKEN_FILE = join(folder, "metrics");
          writeFileSync(given.SHRUTI_METRICS_TOKEN_FILE, "x");
        }
        expect(() => loadConfig(undefined, given)).not.toThrow();
      }
    }
  }, 30_000);

  test("workers alone have no server, and a claim that is there is used", () => {
    const workers = render("--set", "server.enabled=false,workers[0].name=a,workers[0].secretName=a");
    expect(workers.resources.map(({ kind }) => kind)).toEqual(["Deployment"]);
    const claimed = render("--set", "storage.existingClaim=mine").resources;
    expect(claimed.map(({ kind }) => kind)).not.toContain("PersistentVolumeClaim");
    expect(JSON.stringify(claimed)).toContain('"claimName":"mine"');
  }, 30_000);

  const INGRESS = "ingress.enabled=true,ingress.host=shruti.example";
  const addresses: [name: string, set: string, expected: string[]][] = [
    ["that is given", "server.baseUrl=https://given.example", ["https://given.example"]],
    [
      "of the variables",
      "server.env[0].name=SHRUTI_SERVER_BASE_URL,server.env[0].value=http://variable.example",
      ["http://variable.example"],
    ],
    ["of an ingress", INGRESS, ["http://shruti.example"]],
    ["of an ingress with TLS", `${INGRESS},ingress.tlsSecretName=tls`, ["https://shruti.example"]],
    ["of the service", "service.port=80", ["http://shruti.speech.svc:80"]],
    ["of the service with TLS", "secrets.tls.name=tls", ["https://shruti.speech.svc:8080"]],
  ];
  test.each(addresses)("uploads go to the address %s", (_, set, expected) => {
    const { resources } = render("--namespace", "speech", "--set", set);
    const server = resources.find(({ kind }) => kind === "StatefulSet");
    const env = server?.spec.template.spec.containers[0]?.env ?? [];
    const values = env.filter(({ name }) => name === "SHRUTI_SERVER_BASE_URL").map(({ value }) => value);
    expect(values).toEqual(expected);
  });

  const configs: [config: string, isThere: boolean][] = [
    ['[server]\nbase_url = "https://a"', true],
    [
      '[log]\nlevel = "warn"\n\n[ "server" ] # all of it\r\n\r\n# first\r\ndrain_seconds = 9\r\n  base_url="https://a"',
      true,
    ],
    ['[server]\n"base_url" = "https://a"', true],
    ["[server]\n'base_url' = 'https://a'", true],
    ['# here\nserver.drain_seconds = 9\nserver.base_url = "https://a"\n[log]\nlevel = "warn"', true],
    ['"server" . "base_url" = "https://a"', true],
    ['server = {base_url = "https://a"}', true],
    ['server = { cors_origins = ["https://b"], "base_url" = "https://a" }', true],
    ["", false],
    ['[fleet]\nbase_url = "https://a"', false],
    ['[server]\ndrain_seconds = 9\n[fleet]\nbase_url = "https://a"', false],
    ['[server]\n# base_url = "https://a"', false],
    ['fleet.base_url = "https://a"\n[server]\ndrain_seconds = 9', false],
    ['fleet = {base_url = "https://a"}\nserver = {drain_seconds = 9}', false],
    ['[log]\nserver.base_url = "https://a"', false],
  ];
  test.each(configs)("the address is known to be in the config, or not: %j", (config, isThere) => {
    const parsed = Bun.TOML.parse(config) as { server?: { base_url?: string } };
    expect(parsed.server?.base_url).toBe(isThere ? "https://a" : undefined);
    const { resources } = render("--set-json", `server.config=${JSON.stringify(config)}`);
    const server = resources.find(({ kind }) => kind === "StatefulSet");
    const env = server?.spec.template.spec.containers[0]?.env ?? [];
    expect(env.some(({ name }) => name === "SHRUTI_SERVER_BASE_URL")).toBe(!isThere);
  });

  test("workers reach the server before it is ready, and a rollback replaces a pod that never was", () => {
    const { resources } = render(...EVERYTHING);
    const services = resources.filter(({ kind }) => kind === "Service");
    const early = services.map(({ metadata, spec }) => [
      metadata.name,
      spec.publishNotReadyAddresses ?? false,
    ]);
    expect(early).toEqual([
      ["shruti", false],
      ["shruti-fleet", true],
    ]);
    expect(resources.find(({ kind }) => kind === "StatefulSet")?.spec.podManagementPolicy).toBe("Parallel");
  });

  test("what is missing or mistyped is named", () => {
    const noAddress = render("--set", "fleet.nats[0]=tls://nats.example:4222");
    expect([noAddress.code, noAddress.said]).toEqual([
      1,
      expect.stringContaining("fleet.baseUrl must be set"),
    ]);
    const mistyped = render("--set", "server.replicas=2");
    expect([mistyped.code, mistyped.said]).toEqual([1, expect.stringContaining("replicas")]);
  }, 30_000);
});
