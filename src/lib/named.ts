/**
 * Returns those that have a name. The same letters can be written with other code points, such as क़ with and without a
 * sign of its own.
 */
export function named<T extends { name: string }>(all: readonly T[], name: string): T[] {
  return all.filter((each) => each.name.normalize() === name.normalize());
}
