// An answer as the page shows it.

import type { PredictResponse } from "../../protocol/predict.ts";
import { bar, element } from "../dom.ts";
import { formatConfidence, formatDuration, formatPercent } from "../format.ts";
import { parseServerTiming } from "./server-timing.ts";
import type { TierOutcome } from "./tier-outcomes.ts";

type Output = PredictResponse["outputs"][number];

export const labelView = ({ label }: Pick<Output, "label">): HTMLElement =>
  element("p", { class: "label" }, label);

export function rankingTable({ scores }: Output): HTMLElement {
  const rows = scores.map(({ label, score }) =>
    element(
      "tr",
      {},
      element("td", {}, label),
      element("td", {}, bar(`score of ${label}`, score)),
      element("td", { class: "n" }, formatPercent(score, 2)),
    ),
  );
  const head = element(
    "tr",
    {},
    ...["Label", "Score", "Percent"].map((name) => element("th", { scope: "col" }, name)),
  );
  return element(
    "table",
    { class: "ranking" },
    element("caption", { class: "visually-hidden" }, "The likeliest labels"),
    element("thead", { class: "visually-hidden" }, head),
    element("tbody", {}, ...rows),
  );
}

const STATUS_MARKS: Readonly<Record<TierOutcome["status"], string>> = {
  answered: "✓",
  escalated: "→",
  failed: "✗",
  not_called: "·",
};

export function tierList(steps: readonly TierOutcome[]): HTMLElement {
  return element(
    "ol",
    { class: "tiers", "aria-label": "Tiers, in the order in which they are asked" },
    ...steps.map(tierItem),
  );
}

function tierItem({
  id,
  place,
  status: state,
  description: what,
  threshold,
  confidence: own,
  label,
}: TierOutcome): HTMLElement {
  const limit =
    threshold === null
      ? "takes every input that comes to it"
      : `exits from ${formatConfidence(threshold)} on`;
  const title = element(
    "div",
    { class: "title" },
    element("span", {}, element("b", {}, `${STATUS_MARKS[state]} ${id}`), ` ${what}`),
    element("span", { class: "badge" }, place),
  );
  const shown =
    own === undefined
      ? [element("p", { class: "note" }, limit)]
      : [
          bar(`confidence ${formatConfidence(own)}, ${limit}`, own, threshold ?? undefined),
          element(
            "p",
            { class: "note" },
            `${label === undefined ? "" : `“${label}”, `}confidence ${formatConfidence(own)}; ${limit}`,
          ),
        ];
  return element(
    "li",
    { class: state === "not_called" ? "" : state, "data-tier": id },
    title,
    ...shown,
  );
}

/** How it was answered: version, cache, times, id. */
export function responseMetadata(
  entries: readonly (readonly [string, string])[],
  headers: Headers,
  tookMs: number,
): HTMLElement {
  const told = [
    ...entries,
    ["cache", headers.get("x-edgetier-cache") ?? "none"],
    ["took", formatDuration(tookMs)],
    ["request", headers.get("x-request-id") ?? "not told"],
  ] as const;
  return element(
    "ul",
    { class: "facts", "aria-label": "How it was answered" },
    ...told.map(([name, value]) =>
      element("li", { "data-fact": name }, `${name} `, element("b", {}, value)),
    ),
  );
}

export function serverTimingTable(headers: Headers): HTMLElement | string {
  const phases = parseServerTiming(headers.get("server-timing"));
  if (phases.length === 0) return "";
  const rows = phases.map(({ name, durationMs: ms }) =>
    element("tr", {}, element("td", {}, name), element("td", { class: "n" }, formatDuration(ms))),
  );
  const head = element(
    "tr",
    {},
    element("th", { scope: "col" }, "Phase"),
    element("th", { scope: "col", class: "n" }, "Waited"),
  );
  return element(
    "details",
    {},
    element("summary", {}, "Where the edge waited"),
    element(
      "p",
      { class: "note" },
      "By the isolate's clock, which stands still while it computes.",
    ),
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)),
  );
}

export function curlBlock(text: string): HTMLElement {
  const copy = element("button", { type: "button", class: "quiet" }, "Copy");
  copy.addEventListener("click", () => {
    void navigator.clipboard.writeText(text).then(
      () => (copy.textContent = "Copied"),
      () => (copy.textContent = "Select it to copy"),
    );
  });
  return element(
    "details",
    { open: true },
    element("summary", {}, "The same with curl"),
    element("pre", { tabindex: 0, "aria-label": "curl command" }, text),
    copy,
  );
}

/** @returns undefined for vectors without a direction */
export function cosineSimilarity(
  one: readonly number[],
  other: readonly number[],
): number | undefined {
  const dot = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
  const lengths = Math.sqrt(dot(one, one) * dot(other, other));
  return lengths === 0 ? undefined : dot(one, other) / lengths;
}
