import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TEST_VARIABLES } from "../testing/rules/test-variables.ts";
import { loadConfig, readConfig } from "./load.ts";
import { renderConfig, renderConfigToEdit } from "./render.ts";

const folder = mkdtempSync(join(tmpdir(), "shruti-config-"));
const path = join(folder, "shruti.toml");
afterAll(() => rmSync(folder, { recursive: true }));

/** A relative default belongs to the folder of the file. */
const DEFAULTS_OF_A_FILE = loadConfig(undefined, { SHRUTI_STORAGE_DATA_DIR: join(folder, "shruti-data") });

describe("config", () => {
  test("the rendered defaults load to the defaults", () => {
    writeFileSync(path, renderConfig());
    expect(loadConfig(path, {})).toEqual(DEFAULTS_OF_A_FILE);
  });

  test("a file to edit sets only what is given, and a setting works once its # is removed", () => {
    const text = renderConfigToEdit("A heading.", {
      engine: { workers: 2 },
      models: { languages: { hi: "a" } },
    });
    writeFileSync(path, text);
    const { engine, models } = DEFAULTS_OF_A_FILE;
    const given = { engine: { ...engine, workers: 2 }, models: { ...models, languages: { hi: "a" } } };
    expect(loadConfig(path, {})).toEqual({ ...DEFAULTS_OF_A_FILE, ...given });
    expect(text).toStartWith("# A heading.\n");
    expect(text).toContain("\nworkers = 2\n");
    writeFileSync(path, text.replaceAll(/^#(?=\w+ = )/gm, ""));
    expect(loadConfig(path, {})).toEqual({ ...DEFAULTS_OF_A_FILE, ...given });
  });

  test("the file overrides the defaults, and the environment overrides the file", () => {
    writeFileSync(path, "[limits]\nmax_queued = 7\n[engine]\nworkers = 2\n[webhooks]\nallow_http = true\n");
    const config = loadConfig(path, {
      SHRUTI_ENGINE_WORKERS: "auto",
      SHRUTI_WEBHOOKS_ALLOWED_NETWORKS: "127.0.0.0/8, ::1/128",
    });
    expect(config.limits.max_queued).toBe(7);
    expect(config.engine.workers).toBe("auto");
    expect(config.webhooks.allow_http).toBe(true);
    expect(config.webhooks.allowed_networks).toEqual(["127.0.0.0/8", "::1/128"]);
  });

  test("models for languages, in the file and in the environment", () => {
    writeFileSync(path, '[models]\ndefault = "a"\n[models.languages]\nhi = "indic"\nta = "large-v3.1"\n');
    expect(loadConfig(path, {}).models).toMatchObject({
      default: "a",
      languages: { hi: "indic", ta: "large-v3.1" },
    });
    const changed = loadConfig(path, { SHRUTI_MODELS_LANGUAGES: "brx=indic, hi=b" });
    expect(changed.models.languages).toEqual({ brx: "indic", hi: "b" });
    expect(loadConfig(path, { SHRUTI_MODELS_LANGUAGES: "" }).models.languages).toEqual({});
    writeFileSync(path, renderConfig({ models: { languages: { hi: "indic" } } }));
    expect(loadConfig(path, {}).models.languages).toEqual({ hi: "indic" });
    writeFileSync(path, '[models]\nlanguages = { hi = "indic" }\n');
    expect(loadConfig(path, {}).models.languages).toEqual({ hi: "indic" });
    expect(() => loadConfig(path, { SHRUTI_MODELS_LANGUAGES: "hi" })).toThrow("wrong entry hi");
  });

  const refused: [string, string, string][] = [
    ["no language", '[models.languages]\nhindi = "a"\n', ":2: models.languages has a wrong entry hindi"],
    ["no model", '[models.languages]\nhi = "../a"\n', ":2: models.languages has a wrong entry hi"],
    ["a number as model", "[models.languages]\nhi = 1\n", ":2: models.languages has a wrong entry hi"],
    ["no table", '[models]\nlanguages = "hi"\n', ":2: models.languages must be a table"],
    ["another table", '[models.default]\nhi = "a"\n', ":1: unknown section [models.default]"],
    ["a table of every object", '[constructor.name]\nhi = "a"\n', ":1: unknown section"],
    ["unknown setting", "[limits]\n\nmax_queue = 7\n", ":3: unknown setting limits.max_queue"],
    ["unknown section", "[limit]\nmax_queued = 7\n", ":1: unknown section [limit]"],
    ["wrong type", '[limits]\nmax_queued = "7"\n', ":2: limits.max_queued must be a whole number from 0"],
    ["out of range", "[limits]\nmax_queued = -1\n", ":2: limits.max_queued must be a whole number"],
    ["wrong choice", '[engine]\ndevice = "tpu"\n', ":2: engine.device must be one of auto, cpu"],
    ["broken TOML", "[limits]\nmax_queued = = 7\n", ":2:"],
    ["no section", "max_queued = 7\n", ":1: the setting must be in a [section]"],
    [
      "a name that every JavaScript object has",
      '[limits]\nconstructor = "x"\n',
      ":2: unknown setting limits.constructor",
    ],
    ["another one", '[limits]\ntoString = "x"\n', ":2: unknown setting limits.toString"],
    ["the prototype", '[limits]\n__proto__ = "x"\n', ":2: __proto__ is unknown"],
    [
      "the prototype, deeper inside",
      "[limits]\nmax_queued = { __proto__ = { a = 1 } }\n",
      ":2: __proto__ is unknown",
    ],
    [
      "a section with a name that every object has",
      "[constructor]\nname = 7\n",
      ":1: unknown section [constructor]",
    ],
    ["nested", "[limits]\nmax_queued.x = 7\n", ":2: unknown setting limits.max_queued.x"],
  ];
  for (const [name, source, message] of refused) {
    test(`refuses: ${name}`, () => {
      writeFileSync(path, source);
      expect(() => loadConfig(path, {})).toThrow(message);
    });
  }

  const forms: [string, string, string][] = [
    ["a mistyped setting", "[limits]\nmax_queue = 7\n", "; did you mean max_queued?"],
    ["a mistyped section", "[limit]\n", "; did you mean [limits]?"],
    ["a setting of another section", "[server]\nmax_queued = 7\n", "; it belongs into [limits]"],
    [
      "a setting of a newer version",
      "[server]\nteleport = 7\n",
      "; Shruti 0.1.0 has no such setting; a newer",
    ],
    ["a section of a newer version", "[quantum]\n", "; Shruti 0.1.0 has no such section; a newer"],
    ["a number", '[limits]\nmax_queued = "7"\n', "; for example max_queued = 1000"],
    ["an address", '[server]\nlisten = "8080"\n', '; for example listen = "127.0.0.1:8080"'],
    [
      "an empty default",
      '[server]\nbase_url = "a"\n',
      '; for example base_url = "https://shruti.example.in"',
    ],
    ["a list", '[server]\ncors_origins = "a"\n', '; for example cors_origins = ["https://app.example.in"]'],
    [
      "an address with a query",
      '[server]\nbase_url = "https://x?y=1"\n',
      'fragment; for example base_url = "https://shruti.example.in"',
    ],
    ["an address with a fragment", '[server]\nbase_url = "https://x#y"\n', "a query or a fragment"],
    ["an address with a password", '[server]\nbase_url = "https://u:p@x"\n', "a user name or a password"],
    ["an address with a wrong port", '[server]\nbase_url = "https://x:99999"\n', "can be read"],
    ["a token that no header can have", '[metrics]\ntoken = "a b"\n', "; for example token = "],
    ["a time zone", '[billing]\ntimezone = "IST+5"\n', '; for example timezone = "Asia/Kolkata"'],
  ];
  for (const [name, source, message] of forms) {
    test(`names the correct form: ${name}`, () => {
      writeFileSync(path, source);
      expect(() => loadConfig(path, {})).toThrow(message);
    });
  }

  test("reports every mistake, in the order of the lines, and then those of the environment", () => {
    writeFileSync(path, '[limits]\nmax_queue = 7\n[engine]\ndevice = "tpu"\nworkers = 2\n[limit]\nx = 1\n');
    const environment = { SHRUTI_SEVER_LISTEN: "1", SHRUTI_CONFG: "1", SHRUTI_ENGINE_CHUNK_ATTEMPTS: "many" };
    const { problems, config } = readConfig(path, environment);
    expect(problems.map(({ where, message }) => `${where} ${message.split(/[;]| must/)[0]}`)).toEqual([
      `${path}:2 unknown setting limits.max_queue`,
      `${path}:4 engine.device`,
      `${path}:6 unknown section [limit]`,
      "environment SHRUTI_SEVER_LISTEN is not a setting",
      "environment SHRUTI_CONFG is not a setting",
      "environment SHRUTI_ENGINE_CHUNK_ATTEMPTS",
    ]);
    expect(config.engine).toMatchObject({ device: "auto", workers: 2, chunk_attempts: 3 });
    expect(() => loadConfig(path, environment)).toThrow(problems.at(-1)?.message ?? "none");
  });

  test("reports every wrong entry of a table, and keeps the others", () => {
    writeFileSync(path, '[models.languages]\nhindi = "a"\nta = "b"\nmr = 1\n');
    const { problems, config } = readConfig(path, {});
    expect(problems.map(({ where }) => where)).toEqual([`${path}:2`, `${path}:4`]);
    expect(config.models.languages).toEqual({ ta: "b" });
  });

  test("relative paths of the file belong to its folder, and those of variables to the working directory", () => {
    writeFileSync(
      path,
      '[storage]\ndata_dir = "data"\n[server]\ntls_cert = "../cert.pem"\ntls_key = "/key.pem"\n',
    );
    const { config, warnings } = readConfig(path, { SHRUTI_MODELS_DIR: "models-elsewhere" });
    expect(config.storage.data_dir).toBe(join(folder, "data"));
    expect(config.server).toMatchObject({ tls_cert: join(folder, "../cert.pem"), tls_key: "/key.pem" });
    expect(config.models.dir).toBe("models-elsewhere");
    expect(config.webhooks.ca_file).toBe("");
    expect(warnings).toEqual([]);
  });

  test("a file that cannot be read is named with the reason", () => {
    expect(() => loadConfig(join(folder, "none.toml"), {})).toThrow(
      "none.toml: the config file cannot be read (ENOENT)",
    );
    expect(() => loadConfig(folder, {})).toThrow("(it is a directory, not a regular file)");
    expect(() => loadConfig("/dev/zero", {})).toThrow("(it is a device, not a regular file)");
  });

  test("an environment variable of the wrong type is named", () => {
    expect(() => loadConfig(undefined, { SHRUTI_LIMITS_MAX_QUEUED: "many" })).toThrow(
      "SHRUTI_LIMITS_MAX_QUEUED",
    );
  });

  const mistyped: [string, string][] = [
    ["SHRUTI_LIMITS_MAX_QUEUE", "is not a setting; did you mean SHRUTI_LIMITS_MAX_QUEUED?"],
    ["SHRUTI_SEVER_LISTEN", "is not a setting; did you mean SHRUTI_SERVER_LISTEN?"],
    ["SHRUTI_SERVER_listen", "is not a setting; did you mean SHRUTI_SERVER_LISTEN?"],
    ["shruti_server_listen", "is not a setting; did you mean SHRUTI_SERVER_LISTEN?"],
    ["SHRUTI_CONFG", "is not a setting; did you mean SHRUTI_CONFIG?"],
    ["SHRUTI_LISTEN", "is not a setting; did you mean SHRUTI_SERVER_LISTEN?"],
    ["SHRUTI_PORT", "is not a setting"],
    ["SHRUTI_SERVER_PORT", "is not a setting"],
    ["SHRUTI_SERVER_SERVICE_HOST", "is not a setting"],
    ["SHRUTI_FLEET_PORT_4222_TCP_PROTO", "is not a setting"],
    ["SHRUTI_CONSTRUCTOR_NAME", "is not a setting; `shruti config defaults` lists them"],
    ["SHRUTI_SERVER_CONSTRUCTOR", "is not a setting"],
    ["SHRUTI_SERVER___PROTO__", "is not a setting"],
    ...TEST_VARIABLES.map((name): [string, string] => [name, "is not a setting"]),
  ];
  for (const [variable, message] of mistyped) {
    test(`a mistyped environment variable is named with the nearest correct name: ${variable}`, () => {
      expect(() => loadConfig(undefined, { [variable]: "1" })).toThrow(`environment: ${variable} ${message}`);
    });
  }

  test("variables of a Kubernetes service and of other programs are ignored", () => {
    const environment = {
      SHRUTI_CONFIG: "elsewhere.toml",
      SHRUTI_SERVICE_HOST: "10.0.0.7",
      SHRUTI_SERVICE_PORT: "8080",
      SHRUTI_SERVICE_PORT_HTTP: "8080",
      SHRUTI_PORT: "tcp://10.0.0.7:8080",
      SHRUTI_PORT_8080_TCP: "tcp://10.0.0.7:8080",
      SHRUTI_PORT_8080_TCP_ADDR: "10.0.0.7",
      // A service `shruti-fleet`, and one of IPv6.
      SHRUTI_FLEET_SERVICE_HOST: "10.0.0.8",
      SHRUTI_FLEET_SERVICE_PORT: "4222",
      SHRUTI_FLEET_SERVICE_PORT_NATS: "4222",
      SHRUTI_FLEET_PORT: "tcp://10.0.0.8:4222",
      SHRUTI_FLEET_PORT_4222_TCP: "tcp://10.0.0.8:4222",
      SHRUTI_FLEET_PORT_4222_TCP_PROTO: "tcp",
      SHRUTI_FLEET_PORT_4222_TCP_PORT: "4222",
      SHRUTI_FLEET_PORT_4222_TCP_ADDR: "10.0.0.8",
      SHRUTI_2_SERVICE_HOST: "fd00::7",
      SHRUTI_2_PORT_53_UDP: "udp://[fd00::7]:53",
      SHRUTIS_SERVER_LISTEN: "1",
      MY_SHRUTI_SERVER: "1",
    };
    expect(loadConfig(undefined, environment)).toEqual(loadConfig(undefined, {}));
  });

  test("an origin that browsers never send is refused", () => {
    const load = (origins: string) => () => loadConfig(undefined, { SHRUTI_SERVER_CORS_ORIGINS: origins });
    for (const origins of ["", "*", "https://a.example, http://localhost:3000"])
      expect(load(origins)).not.toThrow();
    for (const origins of ["a.example", "https://a.example/", "https://a.example/app", "https://a.example,b"])
      expect(load(origins)).toThrow("SHRUTI_SERVER_CORS_ORIGINS does not match the required format");
  });

  test("secrets are hidden when shown", () => {
    expect(renderConfig({ metrics: { token: "abc" } }, true)).not.toContain("abc");
  });
});
