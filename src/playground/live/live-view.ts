// The live panel: polls the edge's metrics and regions while somebody looks.

import type { MetricsSnapshot } from "../../protocol/metrics-snapshot.ts";
import type { ModelList } from "../../protocol/model-detail.ts";
import type { RegionList } from "../../protocol/region-list.ts";
import { callApi, ApiError } from "../edge-api.ts";
import { getElement } from "../dom.ts";
import { createSnapshotHistory } from "./snapshot-history.ts";
import { renderLivePanels } from "./panels.ts";

const POLL_MS = 2_000;
/** Of models and regions, which change seldom: every so many polls. */
const POLLS_PER_MODEL_REFRESH = 5;
/** What asking again would not change: a key is missing, or this edge has no metrics. */
const FINAL_STATUSES = new Set([401, 403, 404, 406]);

/** @returns what begins to poll, or begins anew with another key */
export function mountLiveView(): () => void {
  const [panels, note, window_] = [
    getElement("live-panels", HTMLElement),
    getElement("live-note", HTMLElement),
    getElement("window", HTMLSelectElement),
  ];
  let history = createSnapshotHistory();
  let regions: RegionList["regions"] = [];
  let models: ModelList["models"] = [];
  let polls = 0;
  let timer: number | undefined;

  async function poll(): Promise<void> {
    if (polls++ % POLLS_PER_MODEL_REFRESH === 0) {
      regions = (await callApi<RegionList>("/v1/regions")).body.regions;
      models = (await callApi<ModelList>("/v1/models")).body.models;
    }
    const { body } = await callApi<MetricsSnapshot>("/metrics", {
      headers: { accept: "application/json" },
    });
    history.add(body);
    note.textContent = `Counted over all isolates of this edge; read ${new Date(body.takenAtMs).toLocaleTimeString()}.`;
  }

  function draw(): void {
    if (panels.contains(document.activeElement)) return; // somebody reads there by keyboard
    const shown = window_.value === "minute" ? history.computeLastMinute() : history.latest;
    panels.replaceChildren(
      ...renderLivePanels({
        snapshot: shown,
        rates: history.computeRates(),
        pollSeconds: POLL_MS / 1_000,
        regions,
        models,
      }),
    );
  }

  async function turn(): Promise<void> {
    timer = undefined;
    if (document.hidden) return; // begins again when it is seen
    try {
      await poll();
    } catch (error) {
      note.textContent =
        error instanceof ApiError && error.status === 404
          ? "This edge counts nothing."
          : `No counts: ${error instanceof Error ? error.message : String(error)}`;
      if (error instanceof ApiError && FINAL_STATUSES.has(error.status)) return draw();
    }
    draw();
    timer ??= setTimeout(() => void turn(), POLL_MS);
  }

  const begin = () => {
    if (timer === undefined) void turn();
  };
  window_.addEventListener("change", draw);
  document.addEventListener("visibilitychange", begin);
  return () => {
    clearTimeout(timer);
    timer = undefined;
    history = createSnapshotHistory();
    polls = 0;
    begin();
  };
}
