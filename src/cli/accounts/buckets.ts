import type { Command } from "commander";
import { RegularFileError, readRegularFile } from "../../lib/regular-file.ts";
import { reasonOf } from "../../lib/system-error.ts";
import { toTimestamp } from "../../lib/time.ts";
import type { BucketView } from "../../services/buckets.ts";
import { type CliContext, CommandError } from "../frame/context.ts";

/** Many times the size of a secret access key. */
const MAX_SECRET_BYTES = 4096;

/** `shruti buckets …` */
export function registerBuckets(program: Command, context: CliContext): void {
  const buckets = program
    .command("buckets")
    .description(
      "buckets of S3-compatible servers, from which recordings are fetched and to which results are written",
    );
  addAdd(buckets, context);

  buckets
    .command("list")
    .description("buckets of an organization or of all, without their secrets")
    .option("--org <id>", "organization")
    .option("--json", "print JSON")
    .action(async ({ org, json }: { org?: string; json?: true }) => {
      const found = (await context.openServices()).buckets.list(org);
      if (json) {
        context.printJson(found.map(toJson));
        return;
      }
      const rows = found.map((row) => [
        ...[row.name, row.organizationId, row.endpoint, row.region, row.accessKey],
        row.isPrivate ? "private" : "public",
      ]);
      context.printTable(["NAME", "ORGANIZATION", "ENDPOINT", "REGION", "ACCESS KEY", "NETWORK"], rows);
    });

  buckets
    .command("remove")
    .description("forget a bucket and its credentials; what is being fetched from it fails")
    .argument("<name>", "bucket")
    .requiredOption("--org <id>", "organization")
    .action(async (name: string, { org }: { org: string }) => {
      (await context.openServices()).buckets.remove(org, name);
      context.printLine(`The bucket ${name} of ${org} is removed.`);
    });
}

type AddOptions = {
  org: string;
  endpoint: string;
  region: string;
  accessKey: string;
  secretFile: string;
  private?: true;
  json?: true;
};

function addAdd(buckets: Command, context: CliContext): void {
  buckets
    .command("add")
    .description("store a bucket with its credentials, or replace those that are stored")
    .argument("<name>", "bucket, as s3://NAME/… names it")
    .requiredOption("--org <id>", "organization whose projects may use it")
    .requiredOption("--endpoint <url>", "address of the server, such as https://s3.ap-south-1.amazonaws.com")
    .requiredOption("--access-key <id>", "ID of the access key")
    .requiredOption("--secret-file <file>", "file with the secret of the access key")
    .option("--region <name>", "region, as the server calls it", "us-east-1")
    .option("--private", "the server is in a private network or on this machine; http:// is allowed")
    .option("--json", "print JSON")
    .action(async (name: string, options: AddOptions) => {
      const secretKey = readSecret(options.secretFile);
      const { org: organizationId, endpoint, region, accessKey } = options;
      const { buckets: service } = await context.openServices();
      const isPrivate = options.private === true;
      const added = service.add({ organizationId, name, endpoint, region, accessKey, secretKey, isPrivate });
      if (options.json) context.printJson(toJson(added));
      else context.printLine(`Projects of ${organizationId} can use s3://${name}/ now.`);
    });
}

/** @throws CommandError `usage` with the file and the reason */
function readSecret(path: string): string {
  try {
    return readRegularFile(path, MAX_SECRET_BYTES).trim();
  } catch (error) {
    const reason = error instanceof RegularFileError ? error.code : reasonOf(error);
    throw new CommandError("usage", `--secret-file ${path}: ${reason}`);
  }
}

const toJson = ({ name, organizationId, endpoint, region, accessKey, isPrivate, createdAt }: BucketView) => ({
  ...{ object: "bucket", name, organization_id: organizationId, endpoint, region },
  ...{ access_key: accessKey, private: isPrivate, created_at: toTimestamp(createdAt) },
});
