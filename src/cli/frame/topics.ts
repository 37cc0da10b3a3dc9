import backup from "../../../docs/manual/backup.md" with { type: "text" };
import containers from "../../../docs/manual/containers.md" with { type: "text" };
import firstTranscript from "../../../docs/manual/first-transcript.md" with { type: "text" };
import gpu from "../../../docs/manual/gpu.md" with { type: "text" };
import install from "../../../docs/manual/install.md" with { type: "text" };
import intake from "../../../docs/manual/intake.md" with { type: "text" };
import keys from "../../../docs/manual/keys.md" with { type: "text" };
import models from "../../../docs/manual/models.md" with { type: "text" };
import money from "../../../docs/manual/money.md" with { type: "text" };
import monitoring from "../../../docs/manual/monitoring.md" with { type: "text" };
import network from "../../../docs/manual/network.md" with { type: "text" };
import operations from "../../../docs/manual/operations.md" with { type: "text" };
import proofs from "../../../docs/manual/proofs.md" with { type: "text" };
import troubleshooting from "../../../docs/manual/troubleshooting.md" with { type: "text" };
import upgrade from "../../../docs/manual/upgrade.md" with { type: "text" };
import writtenForm from "../../../docs/manual/written-form.md" with { type: "text" };

/** A page of the manual. The executable contains its text, because the machine may have no network. */
export type Topic = { name: string; title: string; text: string };

const topic = (name: string, text: string): Topic => ({
  name,
  title: text.split("\n", 1)[0]?.replace(/^# /, "") ?? "",
  text,
});

/** All pages, in the order of `shruti help topics`. */
export const TOPICS: readonly Topic[] = [
  topic("install", install),
  topic("containers", containers),
  topic("network", network),
  topic("first-transcript", firstTranscript),
  topic("models", models),
  topic("gpu", gpu),
  topic("keys", keys),
  topic("money", money),
  topic("backup", backup),
  topic("upgrade", upgrade),
  topic("monitoring", monitoring),
  topic("operations", operations),
  topic("proofs", proofs),
  topic("written-form", writtenForm),
  topic("intake", intake),
  topic("troubleshooting", troubleshooting),
];
