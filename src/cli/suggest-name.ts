// Suggests the known name that a misspelled one most likely stands for, by edit distance.

/** One edit is allowed per three characters, and at least one. */
const CHARACTERS_PER_EDIT = 3;

/** Returns the nearest known name; undefined if none is near enough to be meant. */
export function suggestName(name: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((candidate) => ({ candidate, distance: computeEditDistance(name, candidate) }))
    .toSorted((a, b) => a.distance - b.distance);
  const [nearest] = ranked;
  const maxDistance = Math.max(1, Math.floor(name.length / CHARACTERS_PER_EDIT));
  return nearest !== undefined && nearest.distance <= maxDistance ? nearest.candidate : undefined;
}

/**
 * Counts the insertions, deletions, substitutions and swaps of neighboring characters between two texts
 * (optimal string alignment distance).
 */
export function computeEditDistance(from: string, to: string): number {
  const rows = [Array.from({ length: to.length + 1 }, (_, column) => column)];
  const at = (row: number, column: number) => rows[row]?.[column] ?? 0;
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    rows.push(current);
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwapped =
        row > 1 &&
        column > 1 &&
        from[row - 1] === to[column - 2] &&
        from[row - 2] === to[column - 1];
      current[column] = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (isSame ? 0 : 1),
        isSwapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
      );
    }
  }
  return at(from.length, to.length);
}
