// Canary: selects the weighted alias, if any, that serves a request to the default alias.

import { sha256Hex } from "../core/hash.ts";
import { listWeightedAliases } from "../registry/aliases.ts";
import type { Aliases } from "../registry/manifest.ts";

/**
 * @param key equal keys get the same alias; keys are distributed evenly
 * @returns the alias that serves the request, with its version; undefined if the default alias serves it
 */
export async function chooseCanary(
  aliases: Aliases,
  key: string,
): Promise<{ readonly alias: string; readonly version: number } | undefined> {
  const canaries = listWeightedAliases(aliases);
  if (canaries.length === 0) return undefined;
  const fraction = await hashToFraction(key);
  let end = 0;
  return canaries.find(({ weight }) => fraction < (end += weight));
}

/** @returns a number in [0, 1) */
export async function hashToFraction(key: string): Promise<number> {
  return (
    Number.parseInt((await sha256Hex(new TextEncoder().encode(key))).slice(0, 8), 16) / 2 ** 32
  );
}
