import { sql } from "drizzle-orm";

/**
 * Statements that run for every chunk or every request are built and compiled once for each connection: drizzle takes
 * ten times as long to build a statement as SQLite takes to run it.
 */

/** The database of an open transaction, whose statements the transaction runs, too. */
const databases = new WeakMap<object, object>();
/** The statements of each database. */
const statements = new WeakMap<object, Map<unknown, unknown>>();

/** Notes that a transaction was opened in a database, or in a transaction of it. */
export function noteTransaction(tx: object, store: object): void {
  databases.set(tx, databases.get(store) ?? store);
}

/** Forgets the statements of a database that is being closed, because SQLite keeps it open for them. */
export function forgetStatements(store: object): void {
  statements.delete(store);
}

/**
 * Returns a function that returns a statement for a database or a transaction, and builds it only once.
 *
 * @param build makes the statement, with placeholders for all values; it ends with `prepare()`
 */
export function prepared<Store extends object, Statement>(
  build: (store: Store) => Statement,
): (store: Store) => Statement {
  return (store) => {
    const database = databases.get(store) ?? store;
    let known = statements.get(database);
    if (!known) {
      known = new Map();
      statements.set(database, known);
    }
    const found = known.get(build) as Statement | undefined;
    if (found) return found;
    const statement = build(database as Store);
    known.set(build, statement);
    return statement;
  };
}

/** A placeholder for each of some columns, as drizzle's types want the values of an insertion or an update. */
export type Placeholders<Row> = { [Column in keyof Row]: Exclude<Row[Column], undefined> };

/**
 * Does what `prepared` does for statements that write only the columns that a row has: it builds one for each set of them.
 *
 * @param build receives placeholders with the names of the columns
 * @returns a function that returns the statement for a row, whose values it then runs with; columns that are `undefined`
 *   are not written
 */
export function preparedFor<Store extends object, Row extends object, Statement>(
  build: (store: Store, values: Placeholders<Row>) => Statement,
): (store: Store, row: Row) => Statement {
  const bySet = new Map<string, (store: Store) => Statement>();
  return (store, row) => {
    const columns = Object.entries(row).flatMap(([column, value]) => (value === undefined ? [] : [column]));
    const set = columns.sort().join(" ");
    let statement = bySet.get(set);
    if (!statement) {
      const values = Object.fromEntries(columns.map((column) => [column, sql.placeholder(column)]));
      statement = prepared((database: Store) => build(database, values as Placeholders<Row>));
      bySet.set(set, statement);
    }
    return statement(store);
  };
}
