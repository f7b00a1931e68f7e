// How much is to be pruned: one share for everything, or one for each layer or group by its name.
import { toolchainErrors } from "../errors.ts";

/** From 0 to below 1. By name: those that are not named lose nothing. */
export type PruningRatios = number | ReadonlyMap<string, number>;

/** @throws invalid_pruning for a ratio out of range, and for a name that there is not */
export function resolveRatios(
  names: readonly string[],
  ratios: PruningRatios,
): ReadonlyMap<string, number> {
  const byName = typeof ratios === "number" ? new Map(names.map((name) => [name, ratios])) : ratios;
  for (const [name, ratio] of byName) {
    checkRatio(ratio);
    if (!names.includes(name))
      throw toolchainErrors.invalidPruning(
        `There is nothing to prune that is called ${JSON.stringify(name)}`,
      );
  }
  return byName;
}

/** @throws invalid_pruning */
function checkRatio(ratio: number): void {
  if (!(ratio >= 0 && ratio < 1))
    throw toolchainErrors.invalidPruning(`The ratio ${ratio} is not from 0 to below 1`);
}

/** Rounded down, but 0.3 of 10 is 3, although 10 * 0.3 may be a little less. */
export const countToPrune = (all: number, ratio: number): number => Math.floor(all * ratio + 1e-9);
