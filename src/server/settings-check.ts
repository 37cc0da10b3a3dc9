import { ConfigError } from "../config/problems.ts";
import type { Config } from "../config/schema.ts";
import { otherDecoder } from "../engine/other-decoder.ts";
import type { ProgramFileError } from "../lib/program-file.ts";
import { readCertificate } from "./tls.ts";

/**
 * Checks what the schema of the config cannot: whether the files and networks that it names can be used.
 *
 * @throws ConfigError with every mistake
 */
export async function checkSettings(config: Config): Promise<void> {
  const [
    { checkWebhookSettings },
    { checkIntakeSettings },
    { trustedProxies },
    { checkBackupSettings },
    { checkFolderSettings },
  ] = await Promise.all([
    import("../webhooks/sender.ts"),
    import("../intake/address/intake.ts"),
    import("../services/trusted-proxies.ts"),
    import("./scheduled-backups.ts"),
    import("../intake/folders/rules.ts"),
  ]);
  const checks = [
    checkWebhookSettings,
    checkIntakeSettings,
    trustedProxies,
    checkBackupSettings,
    checkFolderSettings,
    readCertificate,
    checkDecoder,
  ];
  const problems = checks.flatMap((check) => {
    try {
      check(config);
      return [];
    } catch (error) {
      if (error instanceof ConfigError) return error.problems;
      throw error;
    }
  });
  if (problems.length > 0) throw new ConfigError(problems);
}

/** @throws ConfigError when `engine.decoder` is not a program */
function checkDecoder({ engine }: Config): void {
  try {
    otherDecoder(engine);
  } catch (cause) {
    throw new ConfigError((cause as ProgramFileError).message, { cause });
  }
}
