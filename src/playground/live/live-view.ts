// Live view: polls the edge's metrics and regions while the page is visible.

import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import type { ModelList } from "../../protocol/model-detail.ts";
import type { RegionList } from "../../protocol/region-list.ts";
import { getElement } from "../dom.ts";
import { callApi, ApiError } from "../edge-api.ts";
import { renderLivePanels } from "./panels.ts";
import { createSnapshotHistory } from "./snapshot-history.ts";

const POLL_INTERVAL_MS = 2_000;
/** Models and regions change rarely, so only each Nth poll reads them. */
const POLLS_PER_MODEL_REFRESH = 5;
/** Errors that another poll would not resolve: a key is missing, or this edge has no metrics. */
const FINAL_STATUSES = new Set([401, 403, 404, 406]);

/** @returns function that starts polling, or restarts it with another key */
export function mountLiveView(): () => void {
  const panels = getElement("live-panels", HTMLElement);
  const note = getElement("live-note", HTMLElement);
  const windowSelect = getElement("window", HTMLSelectElement);
  let data = createLiveData();
  let timer: number | undefined;

  function draw(): void {
    // Replaced panels would lose the keyboard focus.
    if (panels.contains(document.activeElement)) return;
    const { history, regions, models } = data;
    panels.replaceChildren(
      ...renderLivePanels({
        snapshot: windowSelect.value === "minute" ? history.computeLastMinute() : history.latest,
        rates: history.computeRates(),
        pollSeconds: POLL_INTERVAL_MS / 1_000,
        regions,
        models,
      }),
    );
  }

  async function refresh(): Promise<void> {
    timer = undefined;
    if (document.hidden) return; // The event `visibilitychange` resumes polling.
    try {
      const readAt = new Date(await data.poll());
      note.textContent = `Totals of all isolates of this edge, read at ${readAt.toLocaleTimeString()}.`;
    } catch (error) {
      note.textContent = describeError(error);
      if (error instanceof ApiError && FINAL_STATUSES.has(error.status)) return draw();
    }
    draw();
    timer ??= setTimeout(() => void refresh(), POLL_INTERVAL_MS);
  }

  const start = () => {
    if (timer === undefined) void refresh();
  };
  windowSelect.addEventListener("change", draw);
  document.addEventListener("visibilitychange", start);
  return () => {
    clearTimeout(timer);
    timer = undefined;
    data = createLiveData();
    start();
  };
}

function createLiveData() {
  const history = createSnapshotHistory();
  let regions: RegionList["regions"] = [];
  let models: ModelList["models"] = [];
  let polls = 0;
  return {
    history,
    get regions() {
      return regions;
    },
    get models() {
      return models;
    },
    /** @returns time of the snapshot @throws ApiError */
    async poll(): Promise<number> {
      if (polls++ % POLLS_PER_MODEL_REFRESH === 0) {
        regions = (await callApi<RegionList>("/v1/regions")).body.regions;
        models = (await callApi<ModelList>("/v1/models")).body.models;
      }
      const { body } = await callApi<MetricsSnapshot>("/metrics", {
        headers: { accept: "application/json" },
      });
      history.add(body);
      return body.takenAtMs;
    },
  };
}

function describeError(error: unknown): string {
  if (error instanceof ApiError && error.status === 404) return "This edge has no metrics.";
  return `No metrics: ${error instanceof Error ? error.message : String(error)}`;
}
