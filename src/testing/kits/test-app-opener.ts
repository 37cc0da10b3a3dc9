import { afterEach } from "bun:test";
import { openTestApp, type TestApp, type TestAppOptions } from "./open-test-app.ts";

/** Returns `openTestApp` for a file of tests. After each test, everything that it opened is closed. */
export function testAppOpener(): (options?: TestAppOptions) => Promise<TestApp> {
  const apps: TestApp[] = [];
  afterEach(async () => {
    for (const app of apps.splice(0)) await app.close();
  });
  return async (options = {}) => {
    const app = await openTestApp(options);
    apps.push(app);
    return app;
  };
}
