/** Makes a function whose value is made again when the object that it is made from is another one. */
export function derivedFrom<K, T>(source: () => K, make: (source: K) => T): () => T {
  let kept: { source: K; value: T } | undefined;
  return () => {
    const now = source();
    if (!kept || kept.source !== now) kept = { source: now, value: make(now) };
    return kept.value;
  };
}
