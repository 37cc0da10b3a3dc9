export type SignalHandling = {
  /** Is called at SIGHUP; undefined: SIGHUP does nothing yet, or any more. */
  reload: (() => Promise<void>) | undefined;
  stop(): void;
};

/**
 * Drains at the first SIGTERM or SIGINT, and ends the process at the second. The database loses nothing. SIGHUP reloads
 * the config; on a terminal it says that the terminal was closed, and drains.
 */
export function handleSignals(drain: () => void): SignalHandling {
  let hasDrained = false;
  const listener = () => {
    if (hasDrained) process.exit(1);
    hasDrained = true;
    drain();
  };
  const handling: SignalHandling = {
    reload: undefined,
    stop() {
      for (const signal of signals) process.off(signal, listener);
      process.off("SIGHUP", onHangUp);
    },
  };
  const onHangUp = () => {
    if (process.stdin.isTTY) listener();
    else void handling.reload?.();
  };
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.on(signal, listener);
  process.on("SIGHUP", onHangUp);
  return handling;
}
