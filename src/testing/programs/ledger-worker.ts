import { AppError } from "../../domain/errors.ts";
import { openDatabase, transaction } from "../../store/database.ts";
import { accept, finish } from "./ledger-work.ts";

/**
 * A separate process for tests. It accepts and finishes random work of `org_0` until it is killed.
 * Arguments: database file, a name that no other such process has. It prints `working` once it works.
 */
const [path = "", name = ""] = process.argv.slice(2);
const database = openDatabase(path);
const open = new Map<string, number>();

for (let step = 0; ; step++) {
  const chosen = [...open][Math.floor(Math.random() * open.size)];
  if (chosen && Math.random() < 0.5) {
    const [id, reserved] = chosen;
    const charge = Math.floor(Math.random() * (reserved + 1));
    transaction(database.store, (tx) => finish(tx, 0, id, charge));
    open.delete(id);
  } else {
    const id = `tr_${name}_${step}`;
    const reserved = Math.floor(Math.random() * 50);
    try {
      transaction(database.store, (tx) => accept(tx, 0, id, reserved));
      open.set(id, reserved);
    } catch (error) {
      if (!(error instanceof AppError && error.code === "insufficient_credits")) throw error;
    }
  }
  if (step === 0) process.stdout.write("working\n");
}
