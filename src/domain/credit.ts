/** The four kinds of ledger entry (docs/decisions/money.md). */
export const LEDGER_KINDS = ["grant", "reserve", "release", "charge"] as const;
export type LedgerKind = (typeof LEDGER_KINDS)[number];

/** An organization's credit, whole paise. */
export type Credit = { balancePaise: number; reservedPaise: number; availablePaise: number };

/** Returns what an entry adds to balance and reservation, paise. */
export function ledgerEffect(kind: LedgerKind, amountPaise: number): { balance: number; reserved: number } {
  switch (kind) {
    case "grant":
      return { balance: amountPaise, reserved: 0 };
    case "reserve":
      return { balance: 0, reserved: amountPaise };
    case "release":
      return { balance: 0, reserved: -amountPaise };
    case "charge":
      return { balance: -amountPaise, reserved: 0 };
  }
}
