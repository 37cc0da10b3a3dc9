/**
 * Assigns columns to rows with the Hungarian algorithm in O(n³), with shortest augmenting paths (Jonker and Volgenant
 * 1987). The sum of gains is the largest possible.
 *
 * @param gains gain of assigning column c to row r; rows of equal length
 * @returns the column of each row, −1 where there are fewer columns than rows
 */
export function assign(gains: readonly (readonly number[])[]): number[] {
  const size = Math.max(gains.length, gains[0]?.length ?? 0);
  const cost = (row: number, column: number) => -(gains[row - 1]?.[column - 1] ?? 0);
  const rowPotential = new Float64Array(size + 1);
  const columnPotential = new Float64Array(size + 1);
  const rowOf = new Int32Array(size + 1);
  for (let row = 1; row <= size; row++) {
    const path = shortestPath(row, size, cost, { rowPotential, columnPotential, rowOf });
    for (let column = path.end; column !== 0; ) {
      const before = path.previous[column] ?? 0;
      rowOf[column] = before === 0 ? row : (rowOf[before] ?? 0);
      column = before;
    }
  }
  const columns = new Array<number>(gains.length).fill(-1);
  for (let column = 1; column <= (gains[0]?.length ?? 0); column++) {
    const row = rowOf[column] ?? 0;
    if (row >= 1 && row <= gains.length) columns[row - 1] = column - 1;
  }
  return columns;
}

type Duals = { rowPotential: Float64Array; columnPotential: Float64Array; rowOf: Int32Array };

/** Finds the shortest path from a free row to a free column, and updates the potentials. Column 0 means the row. */
function shortestPath(
  startRow: number,
  size: number,
  cost: (row: number, column: number) => number,
  { rowPotential, columnPotential, rowOf }: Duals,
): { end: number; previous: Int32Array } {
  const distance = new Float64Array(size + 1).fill(Number.POSITIVE_INFINITY);
  const previous = new Int32Array(size + 1);
  const isDone = new Uint8Array(size + 1);
  let column = 0;
  let row = startRow;
  do {
    isDone[column] = 1;
    let step = Number.POSITIVE_INFINITY;
    let next = 0;
    for (let c = 1; c <= size; c++) {
      if (isDone[c]) continue;
      const reduced = cost(row, c) - (rowPotential[row] ?? 0) - (columnPotential[c] ?? 0);
      if (reduced < (distance[c] ?? 0)) {
        distance[c] = reduced;
        previous[c] = column;
      }
      if ((distance[c] ?? 0) < step) {
        step = distance[c] ?? 0;
        next = c;
      }
    }
    for (let c = 0; c <= size; c++) {
      const owner = c === 0 ? startRow : (rowOf[c] ?? 0);
      if (isDone[c]) {
        rowPotential[owner] = (rowPotential[owner] ?? 0) + step;
        columnPotential[c] = (columnPotential[c] ?? 0) - step;
      } else {
        distance[c] = (distance[c] ?? 0) - step;
      }
    }
    column = next;
    row = rowOf[column] ?? 0;
  } while (row !== 0);
  return { end: column, previous };
}
