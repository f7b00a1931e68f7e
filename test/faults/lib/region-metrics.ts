// A region's own figures, read from its /metrics.
import { sendRequest } from "./http-client.ts";

export interface RegionMetricsSample {
  /** Waiting for their run. */
  readonly pendingCount: number;
  readonly runsInFlight: number;
  /** Infer requests taken and not answered yet. */
  readonly inFlight: number;
  readonly runCount: number;
  readonly rowCount: number;
  readonly cancelledCount: number;
}

/** Over all models, or of one. */
export async function readRegionMetrics(
  region: string,
  model?: string,
): Promise<RegionMetricsSample> {
  const { text } = await sendRequest(region, { path: "/metrics" });
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
    pendingCount: sum("nv_inference_pending_request_count"),
    runsInFlight: sum("edgetier_region_runs_in_progress"),
    inFlight: lines.reduce(
      (total, [, name, , value]) =>
        name === "edgetier_region_requests_in_flight" ? total + Number(value) : total,
      0,
    ),
    runCount: sum("nv_inference_exec_count"),
    rowCount: sum("nv_inference_count"),
    cancelledCount: sum("nv_inference_request_failure", 'reason="CANCELED"'),
  };
}

export const isRegionIdle = async (region: string): Promise<boolean> => {
  const {
    pendingCount: pending,
    runsInFlight: running,
    inFlight,
  } = await readRegionMetrics(region);
  return pending + running + inFlight === 0;
};
