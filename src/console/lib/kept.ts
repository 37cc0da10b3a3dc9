/**
 * What the browser keeps (IndexedDB): uploads that are not complete, names of files, corrections, names of speakers.
 * It never keeps a key, a recording or a transcript; of a transcript only the words with which a person has corrected it.
 * Where the browser refuses to keep anything, all of it lives as long as the page.
 */

const DATABASE = "shruti-console";
const VERSION = 1;
const TABLES = ["uploads", "names", "corrections", "speakers"] as const;
type Table = (typeof TABLES)[number];

let opened: Promise<IDBDatabase | undefined> | undefined;
const memory = new Map<string, unknown>();

function open(): Promise<IDBDatabase | undefined> {
  opened ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open(DATABASE, VERSION);
      request.onupgradeneeded = () => {
        for (const table of TABLES) {
          if (!request.result.objectStoreNames.contains(table)) request.result.createObjectStore(table);
        }
      };
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(undefined);
      request.onblocked = () => resolve(undefined);
    } catch {
      resolve(undefined);
    }
  });
  return opened;
}

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Keeps a value under a key. Returns whether a reload finds it. @throws the browser's error, such as for a full disk */
export async function keep(table: Table, key: string, value: unknown): Promise<boolean> {
  const database = await open();
  if (!database) memory.set(`${table} ${key}`, value);
  else await settled(database.transaction(table, "readwrite").objectStore(table).put(value, key));
  return database !== undefined;
}

/** Removes what is kept under a key. */
export async function forget(table: Table, key: string): Promise<void> {
  const database = await open();
  if (!database) memory.delete(`${table} ${key}`);
  else await settled(database.transaction(table, "readwrite").objectStore(table).delete(key));
}

/** Removes everything whose key begins with a text. */
export async function forgetUnder(table: Table, prefix: string): Promise<void> {
  const database = await open();
  if (!database) {
    for (const key of memory.keys()) if (key.startsWith(`${table} ${prefix}`)) memory.delete(key);
    return;
  }
  const range = IDBKeyRange.bound(prefix, `${prefix}\uffff`);
  await settled(database.transaction(table, "readwrite").objectStore(table).delete(range));
}

/** Removes everything that is kept. */
export async function forgetAll(): Promise<void> {
  memory.clear();
  const database = await open();
  if (!database) return;
  await Promise.all(
    TABLES.map((table) => settled(database.transaction(table, "readwrite").objectStore(table).clear())),
  );
}

/** Returns everything whose key begins with a text, by key. */
export async function keptUnder<T>(table: Table, prefix = ""): Promise<Map<string, T>> {
  const database = await open();
  if (!database) {
    const found = [...memory].filter(([key]) => key.startsWith(`${table} ${prefix}`));
    return new Map(found.map(([key, value]) => [key.slice(table.length + 1), value as T]));
  }
  const range = prefix === "" ? null : IDBKeyRange.bound(prefix, `${prefix}\uffff`);
  const store = database.transaction(table, "readonly").objectStore(table);
  const [keys, values] = await Promise.all([settled(store.getAllKeys(range)), settled(store.getAll(range))]);
  return new Map(keys.map((key, index) => [String(key), values[index] as T]));
}
