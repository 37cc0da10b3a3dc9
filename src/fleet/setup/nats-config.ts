import { join } from "node:path";
import { CONTROL_MEMBER, inboxOf, subjectsOf } from "../subjects.ts";

export type NatsConfigFacts = {
  fleet: string;
  /** Port that the server listens on. */
  port: number;
  /** Folder of the server's files on its machine. */
  folder: string;
  /** Public key of the control plane. */
  controlKey: string;
  workers: readonly { name: string; key: string }[];
};

/** Files in the folder of the messaging server. */
export const NATS_FILES = {
  config: "nats.conf",
  cert: "nats-cert.pem",
  key: "nats-key.pem",
  pid: "nats.pid",
} as const;

/**
 * A server gives up a TLS handshake after this time, and a second later one without a key. On an overloaded machine a
 * handshake takes many seconds, and a member waits for up to 16 s (link.ts): the server must not be the first to give up.
 */
const TLS_TIMEOUT_SECONDS = 20;

/** The rights of a member: subjects. */
export type Rights = { publish: readonly string[]; subscribe: readonly string[] };

/**
 * Returns the rights of a worker. With a stolen key a machine can take tickets and fetch their audio. It cannot read
 * results, or send some under another worker's name, and sees no keys, names or money.
 */
export function workerRights(fleet: string, worker: string): Rights {
  const subjects = subjectsOf(fleet);
  return {
    publish: [
      subjects.beat(worker),
      subjects.done(worker),
      subjects.hello(worker),
      `$JS.API.CONSUMER.MSG.NEXT.${subjects.stream}.*`,
      `$JS.ACK.${subjects.stream}.>`,
    ],
    subscribe: [`${inboxOf(worker)}.>`, subjects.cancel, subjects.order(worker)],
  };
}

/**
 * Returns the rights of the control plane. It publishes what it sends itself, and of the stream's API what `control/tickets.ts`
 * asks for: a member that could make it publish something can neither purge the stream nor speak for a worker.
 */
export function controlRights(fleet: string): Rights {
  const subjects = subjectsOf(fleet);
  const { stream } = subjects;
  const api = [
    "INFO",
    ...["STREAM.INFO", "STREAM.CREATE", "STREAM.MSG.GET", "STREAM.MSG.DELETE"].map(
      (call) => `${call}.${stream}`,
    ),
    ...["CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE"].map(
      (call) => `${call}.${stream}.>`,
    ),
  ];
  return {
    publish: [
      subjects.jobs,
      subjects.order("*"),
      subjects.cancel,
      ...api.map((call) => `$JS.API.${call}`),
      `${inboxOf("*")}.>`,
    ],
    subscribe: [`${inboxOf(CONTROL_MEMBER)}.>`, subjects.beat("*"), subjects.done("*"), subjects.hello("*")],
  };
}

/** Renders the configuration of the messaging server. `shruti fleet add` and `remove` render it again. */
export function renderNatsConfig({ fleet, port, folder, controlKey, workers }: NatsConfigFacts): string {
  const file = (name: string) => JSON.stringify(join(folder, name));
  const members = [
    { name: CONTROL_MEMBER, key: controlKey, rights: controlRights(fleet) },
    ...workers.map(({ name, key }) => ({ name, key, rights: workerRights(fleet, name) })),
  ];
  return `# Made by \`shruti fleet\`: changes are lost. Start: nats-server -c ${file(NATS_FILES.config)}
listen: "0.0.0.0:${port}"
server_name: "shruti-${fleet}"
pid_file: ${file(NATS_FILES.pid)}
max_payload: 1MB
jetstream {
  store_dir: ${file("jetstream")}
  max_mem: 256MB
  max_file: 64MB
}
tls {
  cert_file: ${file(NATS_FILES.cert)}
  key_file: ${file(NATS_FILES.key)}
  timeout: ${TLS_TIMEOUT_SECONDS}
}
authorization {
  users: [
${members.map(renderMember).join("\n")}
  ]
}
`;
}

function renderMember({ name, key, rights }: { name: string; key: string; rights: Rights }): string {
  return `    { # ${name}
      nkey: ${key}
      permissions: {
        publish: { allow: ${JSON.stringify(rights.publish)} }
        subscribe: { allow: ${JSON.stringify(rights.subscribe)} }
      }
    }`;
}
