// Deprecated exports of `edgetier/client`, under their former names.

import type { ClientErrorCode } from "./errors.ts";
import type { PredictionFor } from "./predict.ts";
import { createRegionSelector, type RegionSelector } from "./region-selector.ts";
import { type CachedResponse, createResponseCache, type ResponseCache } from "./response-cache.ts";

/** @deprecated Use `ResponseCache`. */
export type AnswerStore = ResponseCache;

/** @deprecated Use `CachedResponse`. */
export type KeptAnswer = CachedResponse;

/** @deprecated Use `createResponseCache`. */
export const createAnswerStore = createResponseCache;

/** @deprecated Use `ClientErrorCode`. */
export type ClientFault = ClientErrorCode;

/** @deprecated Use `PredictionFor`. */
export type PredictionOf<Input> = PredictionFor<Input>;

/** @deprecated Use `RegionSelector`, with `markFailed` in place of `leaveAlone`. */
export interface Regions extends Pick<RegionSelector, "nearest"> {
  leaveAlone(id: string): void;
}

/** @deprecated Use `createRegionSelector`. */
export function createRegions(retentionMs?: number): Regions & RegionSelector {
  const selector = createRegionSelector(retentionMs);
  return { ...selector, leaveAlone: selector.markFailed };
}
