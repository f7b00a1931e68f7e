// Pruning ratios: resolves one share for everything, or a share for each layer or group by name.
import { toolchainErrors } from "../errors.ts";

/** At least 0 and below 1. In a map, layers and groups without a ratio are not pruned. */
export type PruningRatios = number | ReadonlyMap<string, number>;

/** @throws invalid_pruning for a ratio out of range and for an unknown name */
export function resolveRatios(
  names: readonly string[],
  ratios: PruningRatios,
): ReadonlyMap<string, number> {
  const byName = typeof ratios === "number" ? new Map(names.map((name) => [name, ratios])) : ratios;
  for (const [name, ratio] of byName) {
    checkRatio(ratio);
    if (!names.includes(name))
      throw toolchainErrors.invalidPruning(
        `${JSON.stringify(name)} names no prunable layer or group`,
      );
  }
  return byName;
}

/** @throws invalid_pruning */
function checkRatio(ratio: number): void {
  if (!(ratio >= 0 && ratio < 1))
    throw toolchainErrors.invalidPruning(`The ratio is ${ratio}; expected at least 0 and below 1`);
}

/** Rounds down. The tolerance makes 0.3 of 10 exactly 3, although 10 * 0.3 may be slightly less. */
export const countToPrune = (total: number, ratio: number): number =>
  Math.floor(total * ratio + 1e-9);
