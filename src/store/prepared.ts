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
