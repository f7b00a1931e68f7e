// A region's own figures, read from its /metrics.
import { ask } from "./ask.ts";

export interface RegionFigures {
  /** Waiting for their run. */
  readonly pending: number;
  readonly running: number;
  /** Infer requests taken and not answered yet. */
  readonly inFlight: number;
  readonly runs: number;
  readonly rows: number;
  readonly cancelled: number;
}

/** Over all models, or of one. */
export async function regionFigures(region: string, model?: string): Promise<RegionFigures> {
  const { text } = await ask(region, { path: "/metrics" });
  const lines = text.split("\n").map((line) => /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []);
  const sum = (name: string, label = "") =>
    lines.reduce(
      (total, [, found, labels = "", value]) =>
        found === name &&
        labels.includes(label) &&
        (model === undefined || labels.includes(`model="${model}"`))
          ? total + Number(value)
          : total,
      0,
    );
  return {
    pending: sum("nv_inference_pending_request_count"),
    running: sum("edgetier_region_runs_in_progress"),
    inFlight: lines.reduce(
      (total, [, name, , value]) =>
        name === "edgetier_region_requests_in_flight" ? total + Number(value) : total,
      0,
    ),
    runs: sum("nv_inference_exec_count"),
    rows: sum("nv_inference_count"),
    cancelled: sum("nv_inference_request_failure", 'reason="CANCELED"'),
  };
}

export const isIdle = async (region: string): Promise<boolean> => {
  const { pending, running, inFlight } = await regionFigures(region);
  return pending + running + inFlight === 0;
};
