export const TICK_MS = 2;
/** Rounds to a tenth. */
export const round = (value: number) => Math.round(value * 10) / 10;

/**
 * Watches the event loop until the returned function is called, which returns the longest pause, and the longest without the
 * time in which other programs had the processors.
 */
export function watchPauses() {
  let [longest, longestBusy] = [0, 0];
  let at = performance.now();
  let cpu = process.cpuUsage();
  const look = () => {
    const now = performance.now();
    const { user, system } = process.cpuUsage(cpu);
    const pause = now - at - TICK_MS;
    longest = Math.max(longest, pause);
    longestBusy = Math.max(longestBusy, Math.min(pause, (user + system) / 1000));
    at = now;
    cpu = process.cpuUsage();
  };
  const timer = setInterval(look, TICK_MS);
  return () => {
    look();
    clearInterval(timer);
    return { longest_pause_ms: round(longest), longest_pause_with_processor_ms: round(longestBusy) };
  };
}
