import { expect, test } from "bun:test";
import { Value } from "@sinclair/typebox/value";
import * as wire from "./console.ts";

const ORGANIZATION = {
  id: "org_01KAJ5KZQ8D3F5G7H9J1K3M5N7",
  object: "organization",
  name: "Radio",
  disabled: false,
  disabled_at: null,
  purged_at: null,
  price_paise_per_audio_hour: null,
  daily_spend_limit_paise: null,
  max_queued: null,
  requests_per_second: 5,
  max_stored_bytes: null,
  low_credit_paise: null,
  weight: 1,
  effective: {
    price_paise_per_audio_hour: 3000,
    daily_spend_limit_paise: 0,
    max_queued: 1000,
    requests_per_second: 5,
    max_stored_bytes: 0,
    low_credit_paise: 0,
  },
  stored_bytes: 1200,
  credit: { balance_paise: 0, reserved_paise: 0, available_paise: 0 },
  created_at: "2026-11-21T04:05:06.789Z",
};

test("shapes of the console are closed", () => {
  const list = { object: "list", data: [ORGANIZATION], next: null };
  expect(Value.Check(wire.OrganizationList, list)).toBe(true);
  expect(Value.Check(wire.OrganizationList, { ...list, more: 1 })).toBe(false);
  expect(Value.Check(wire.OrganizationChange, { weight: 2, max_queued: null })).toBe(true);
  expect(Value.Check(wire.OrganizationChange, { wait: 2 })).toBe(false);
  expect(Value.Check(wire.UsageQuery, { from: "2026-11-01", to: "2026-11-30" })).toBe(true);
  expect(Value.Check(wire.UsageQuery, { from: "1 November" })).toBe(false);
});
