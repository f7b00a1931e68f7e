// Result view: elements for a prediction's output, tiers and metadata.

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
    element("caption", { class: "visually-hidden" }, "Most likely labels"),
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

export function tierList(outcomes: readonly TierOutcome[]): HTMLElement {
  return element(
    "ol",
    { class: "tiers", "aria-label": "Tiers, in the order of their calls" },
    ...outcomes.map(tierItem),
  );
}

function tierItem({
  id,
  place,
  status,
  description,
  threshold,
  confidence,
  label,
}: TierOutcome): HTMLElement {
  const exitRule =
    threshold === null ? "answers every input" : `exits from ${formatConfidence(threshold)}`;
  const title = element(
    "div",
    { class: "title" },
    element("span", {}, element("b", {}, `${STATUS_MARKS[status]} ${id}`), ` ${description}`),
    element("span", { class: "badge" }, place),
  );
  const confidenceElements =
    confidence === undefined
      ? [element("p", { class: "note" }, exitRule)]
      : [
          bar(
            `confidence ${formatConfidence(confidence)}, ${exitRule}`,
            confidence,
            threshold ?? undefined,
          ),
          element(
            "p",
            { class: "note" },
            `${label === undefined ? "" : `“${label}”, `}confidence ${formatConfidence(confidence)}; ${exitRule}`,
          ),
        ];
  return element(
    "li",
    { class: status === "not_called" ? "" : status, "data-tier": id },
    title,
    ...confidenceElements,
  );
}

/** Lists version, cache layer, duration and request id. */
export function responseMetadata(
  entries: readonly (readonly [string, string])[],
  headers: Headers,
  durationMs: number,
): HTMLElement {
  const facts = [
    ...entries,
    ["cache", headers.get("x-edgetier-cache") ?? "none"],
    ["took", formatDuration(durationMs)],
    ["request", headers.get("x-request-id") ?? "unknown"],
  ] as const;
  return element(
    "ul",
    { class: "facts", "aria-label": "Response metadata" },
    ...facts.map(([name, value]) =>
      element("li", { "data-fact": name }, `${name} `, element("b", {}, value)),
    ),
  );
}

export function serverTimingTable(headers: Headers): HTMLElement | string {
  const phases = parseServerTiming(headers.get("server-timing"));
  if (phases.length === 0) return "";
  const rows = phases.map(({ name, durationMs }) =>
    element(
      "tr",
      {},
      element("td", {}, name),
      element("td", { class: "n" }, formatDuration(durationMs)),
    ),
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
    element("summary", {}, "Waiting times at the edge"),
    element("p", { class: "note" }, "By the isolate's clock, which pauses during computation."),
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)),
  );
}

export function curlBlock(text: string): HTMLElement {
  const copy = element("button", { type: "button", class: "quiet" }, "Copy");
  copy.addEventListener("click", () => {
    void navigator.clipboard.writeText(text).then(
      () => (copy.textContent = "Copied"),
      () => (copy.textContent = "Select the text to copy it"),
    );
  });
  return element(
    "details",
    { open: true },
    element("summary", {}, "Same request with curl"),
    element("pre", { tabindex: 0, "aria-label": "curl command" }, text),
    copy,
  );
}

/** @returns undefined if a vector has length 0 */
export function cosineSimilarity(
  first: readonly number[],
  second: readonly number[],
): number | undefined {
  const dot = (a: readonly number[], b: readonly number[]) =>
    a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
  const lengths = Math.sqrt(dot(first, first) * dot(second, second));
  return lengths === 0 ? undefined : dot(first, second) / lengths;
}
