// Number formats of the page.

export const formatPercent = (share: number, digits = 1): string =>
  `${(100 * share).toFixed(digits)} %`;

/** Formats about three significant digits with a unit. */
export function formatDuration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  return ms >= 1_000
    ? `${(ms / 1_000).toFixed(ms >= 10_000 ? 0 : 1)} s`
    : `${ms.toFixed(ms >= 100 ? 0 : ms >= 10 ? 1 : 2)} ms`;
}

/** Formats without the unit, for columns whose header has it. */
export const formatMs = (ms: number): string =>
  Number.isFinite(ms) ? ms.toFixed(ms >= 100 ? 0 : 1) : "–";

export const formatCount = (value: number): string => value.toLocaleString("en");
export const formatConfidence = (value: number): string => value.toFixed(4);
