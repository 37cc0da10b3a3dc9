/** What modules of the console look at while they are loaded. */
const PAGE: Record<string, unknown> = {
  location: { href: "http://localhost/console", hash: "" },
  navigator: { languages: ["en"] },
  document: { documentElement: { dataset: {}, lang: "" } },
  matchMedia: () => ({ matches: false, addEventListener: () => undefined }),
};

/** Loads modules of the console where there is no browser: a page is there only while they are loaded. */
export async function loadAsPage<T>(load: () => Promise<T>): Promise<T> {
  const had = Object.keys(PAGE).map(
    (name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const,
  );
  for (const [name, value] of Object.entries(PAGE)) {
    Object.defineProperty(globalThis, name, { value, configurable: true });
  }
  try {
    return await load();
  } finally {
    for (const [name, descriptor] of had) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else Reflect.deleteProperty(globalThis, name);
    }
  }
}
