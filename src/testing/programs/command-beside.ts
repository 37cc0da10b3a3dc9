import { silentLog } from "../../lib/log.ts";
import { openAdmin } from "../../services/admin.ts";
import { createPurgeService } from "../../services/purge.ts";
import { openTranscriptionAdmin } from "../../services/transcriptions/transcription-admin.ts";
import { listUnfinished } from "../../store/transcriptions.ts";
import type { TestApp } from "../kits/open-test-app.ts";

/** What a command does to the work of a running server, through a connection of its own to the database. */
export type CommandBeside = {
  admin: ReturnType<typeof openAdmin>;
  /** Cancels all unfinished transcriptions. */
  cancel(): Promise<void>;
  /** Purges the organization of the test. */
  purge(): Promise<void>;
  close(): void;
};

/** Opens the data directory as a command does beside a running server. */
export function openCommand({ clock, config, organization }: TestApp): CommandBeside {
  const admin = openAdmin({ config, clock, log: silentLog });
  const transcriptions = openTranscriptionAdmin(admin);
  const { database, dataDir } = admin;
  const receipts = { write: () => ({ id: "rcp_none" }), mirror: async () => {} } as never;
  const purges = createPurgeService({ database, clock, config, dataDir, receipts, transcriptions });
  return {
    admin,
    cancel: async () => {
      for (const { id } of listUnfinished(database.store)) transcriptions.cancelById(id);
    },
    purge: async () => void (await purges.purge(organization.id)),
    close: admin.close,
  };
}
