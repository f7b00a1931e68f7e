// Canaries: aliases that take a share of the requests to the default alias, by their weights.

import { sha256Hex } from "../core/hash.ts";
import { listWeightedAliases } from "../registry/aliases.ts";
import type { Aliases } from "../registry/manifest.ts";

/**
 * @param key the same key gets the same choice, and keys are spread evenly
 * @returns the alias that takes the request, with its version; undefined where the default alias keeps it
 */
export async function chooseCanary(
  aliases: Aliases,
  key: string,
): Promise<{ readonly alias: string; readonly version: number } | undefined> {
  const shares = listWeightedAliases(aliases);
  if (shares.length === 0) return undefined;
  const place = await hashToFraction(key);
  let end = 0;
  return shares.find(({ weight }) => place < (end += weight));
}

/** From 0, included, to 1. */
export async function hashToFraction(key: string): Promise<number> {
  return (
    Number.parseInt((await sha256Hex(new TextEncoder().encode(key))).slice(0, 8), 16) / 2 ** 32
  );
}
