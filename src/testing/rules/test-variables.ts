/**
 * Variables of the environment that tests and their scripts read. They have the program's prefix, and the program refuses
 * what is not a setting, so a program that a test starts gets none of them.
 */
export const TEST_VARIABLES: readonly string[] = [
  "SHRUTI_ALL_WEIGHTS",
  "SHRUTI_BINARY",
  "SHRUTI_CLOCK_DAYS",
  "SHRUTI_CLOCK_RUNS",
  "SHRUTI_CRASH_AUDIT_EVERY",
  "SHRUTI_CRASH_INSTALLATIONS",
  "SHRUTI_CRASH_KILLS",
  "SHRUTI_CRASH_MINUTES",
  "SHRUTI_CRASH_ROUNDS",
  "SHRUTI_CRASH_ROUND_MS",
  "SHRUTI_CRASH_STARTS",
  "SHRUTI_FLEET_INSTALLATIONS",
  "SHRUTI_FLEET_ROUNDS",
  "SHRUTI_FLEET_SUMS",
  "SHRUTI_REAL_MODEL",
  "SHRUTI_SOAK",
  "SHRUTI_TEST_BACKEND",
  "SHRUTI_TEST_RELEASE",
  "SHRUTI_WRITTEN_ALL",
];

/** Returns the environment of this process for a program that a test starts. */
export function programEnvironment(): Record<string, string | undefined> {
  const entries = Object.entries(process.env).filter(([name]) => !TEST_VARIABLES.includes(name));
  return Object.fromEntries(entries);
}
