import type { AccountService } from "../services/accounts.ts";
import type { ConsoleSessionService } from "../services/console-sessions.ts";
import type * as wire from "./wire/console.ts";

/** What the admin part of the console needs beside the services of clients. */
export type AdminDeps = {
  accounts: AccountService;
  sessions: ConsoleSessionService;
  overview: () => wire.Overview;
  series: (span: wire.Series["span"]) => wire.Series;
};
