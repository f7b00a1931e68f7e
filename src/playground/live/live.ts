// The live panel: polls the edge's metrics and regions while somebody looks.

import type { MetricsSnapshot } from "../../protocol/metrics.ts";
import type { ModelList } from "../../protocol/models.ts";
import type { RegionList } from "../../protocol/regions.ts";
import { ask, Refusal } from "../api.ts";
import { found } from "../dom.ts";
import { createHistory } from "./history.ts";
import { livePanels } from "./panels.ts";

const POLL_MS = 2_000;
/** Of models and regions, which change seldom: every so many polls. */
const SELDOM = 5;
/** What asking again would not change: a key is missing, or this edge has no metrics. */
const FINAL = new Set([401, 403, 404, 406]);

/** @returns what begins to poll, or begins anew with another key */
export function showLive(): () => void {
  const [panels, note, window_] = [
    found("live-panels", HTMLElement),
    found("live-note", HTMLElement),
    found("window", HTMLSelectElement),
  ];
  let history = createHistory();
  let regions: RegionList["regions"] = [];
  let models: ModelList["models"] = [];
  let polls = 0;
  let timer: number | undefined;

  async function poll(): Promise<void> {
    if (polls++ % SELDOM === 0) {
      regions = (await ask<RegionList>("/v1/regions")).body.regions;
      models = (await ask<ModelList>("/v1/models")).body.models;
    }
    const { body } = await ask<MetricsSnapshot>("/metrics", {
      headers: { accept: "application/json" },
    });
    history.add(body);
    note.textContent = `Counted over all isolates of this edge; read ${new Date(body.takenAtMs).toLocaleTimeString()}.`;
  }

  function draw(): void {
    if (panels.contains(document.activeElement)) return; // somebody reads there by keyboard
    const shown = window_.value === "minute" ? history.lastMinute() : history.newest;
    panels.replaceChildren(
      ...livePanels({
        shown,
        rates: history.rates(),
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
        error instanceof Refusal && error.status === 404
          ? "This edge counts nothing."
          : `No counts: ${error instanceof Error ? error.message : String(error)}`;
      if (error instanceof Refusal && FINAL.has(error.status)) return draw();
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
    history = createHistory();
    polls = 0;
    begin();
  };
}
