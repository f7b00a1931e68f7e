/** Returns the position of the largest number, the first of equal ones; 0 for an empty row. */
export function argmax(row: ArrayLike<number>): number {
  let best = 0;
  for (let index = 1; index < row.length; index++)
    if ((row[index] ?? 0) > (row[best] ?? 0)) best = index;
  return best;
}
