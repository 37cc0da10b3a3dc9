import { expect, test } from "bun:test";
import { openLog } from "../lib/log.ts";
import { apiClient } from "../testing/answers/api-client.ts";
import { openTestApp } from "../testing/kits/open-test-app.ts";
import { scriptedAudio } from "../testing/kits/scripted-engine.ts";

/** The line in the log and the metric that say that credit is low. */

/** Ends work until the credit of an organization is low. */
test("low credit is logged once for each grant, and is a metric", async () => {
  const lines: string[] = [];
  const t = await openTestApp({
    creditPaise: 100,
    config: {
      billing: { price_paise_per_audio_hour: 36_000, low_credit_paise: 50 },
      metrics: { token: "t" },
    },
    log: openLog("info", "json", (line) => void lines.push(line)),
  });
  const api = apiClient(t.as(t.key));
  const work = async () => {
    const upload = await api.upload(scriptedAudio({ seconds: 2 }));
    const { body } = await api.start({ audio: { upload_id: upload.id }, language: "hi" });
    expect((await api.finished(body.id)).state).toBe("completed");
  };
  const said = () => lines.filter((line) => line.includes("credit is low")).map((line) => JSON.parse(line));
  const metrics = async () => (await t.fetch("/metrics", { headers: { authorization: "Bearer t" } })).text();
  const metric = async () =>
    /^shruti_low_credit_balance_paise\{organization="(org_\w+)"\} (\d+)$/m.exec(await metrics())?.slice(1);
  const balance = () => t.app.services.credit.show(t.organization.id).balancePaise;
  expect(await metric()).toBeUndefined();
  while (balance() >= 50) {
    expect(said()).toEqual([]);
    await work();
  }
  expect(said()).toMatchObject([
    { level: "warn", organization_id: t.organization.id, balance_paise: balance(), threshold_paise: 50 },
  ]);
  expect(await metric()).toEqual([t.organization.id, String(balance())]);
  // Without a token everybody may read the metrics: they count organizations and name none.
  Object.assign(t.config.metrics, { token: "" });
  expect(await metrics()).toContain("\nshruti_low_credit_organizations 1\n");
  expect(await metrics()).not.toContain("org_");
  Object.assign(t.config.metrics, { token: "t" });
  await work();
  expect(said()).toHaveLength(1);
  // A grant ends it; the next time is logged again. The organization's own threshold goes before the config's.
  t.app.services.credit.grant({ organizationId: t.organization.id, amountPaise: 100 });
  expect(await metric()).toBeUndefined();
  t.accounts.setOrganization(t.organization.id, { lowCreditPaise: 500 });
  await work();
  expect(said()).toHaveLength(2);
  expect(said()[1]).toMatchObject({ threshold_paise: 500 });
  t.accounts.setOrganization(t.organization.id, { lowCreditPaise: 0 });
  expect(await metric()).toBeUndefined();
  await t.close();
});
