// Browser scenario: predicts every text on the device alone, and then with escalations to the edge.
import { createClient } from "../../src/client/index.ts";
import {
  loadDeviceModel,
  type Ort,
  type OrtTensor,
  type ReadExportFile,
} from "../../src/client/on-device.ts";

export interface OnDeviceScenarioResult {
  readonly deviceOnly: readonly { readonly label: string; readonly confidence: number }[];
  readonly withEdge: readonly {
    readonly label: string;
    readonly tier: string;
    readonly degraded: boolean;
    readonly source: string;
  }[];
  /** Number of HTTP requests to the edge. */
  readonly edgeRequestCount: number;
  readonly loadMs: number;
  /** Median latency of one text on the device alone. */
  readonly p50Ms: number;
}

const readFile: ReadExportFile = async (name) =>
  new Uint8Array(await (await fetch(`/model/${name}`)).arrayBuffer());

export async function runOnDeviceScenario(
  url: string,
  texts: readonly string[],
): Promise<OnDeviceScenarioResult> {
  const runtime = "/ort/ort.wasm.min.mjs";
  const ort = (await import(runtime)) as Ort<OrtTensor> & {
    readonly env: { readonly wasm: { numThreads: number } };
  };
  ort.env.wasm.numThreads = 1;
  let edgeRequestCount = 0;
  const edge = createClient({
    url,
    deadlineMs: 20_000,
    fetch: (input, init) => {
      edgeRequestCount++;
      return fetch(input, init);
    },
  });
  const startedMs = performance.now();
  const device = await loadDeviceModel({ ort, readFile, edge });
  const loadMs = performance.now() - startedMs;
  const lastTier = device.manifest.tiers.at(-1)?.id;
  const deviceOnly: OnDeviceScenarioResult["deviceOnly"][number][] = [];
  const durationsMs: number[] = [];
  for (const text of texts) {
    const textStartMs = performance.now();
    const { outputs } = await device.predict(text, { maxTier: lastTier });
    durationsMs.push(performance.now() - textStartMs);
    deviceOnly.push({ label: outputs[0].label, confidence: outputs[0].confidence });
  }
  const withEdge: OnDeviceScenarioResult["withEdge"][number][] = [];
  for (const text of texts) {
    const { outputs, source } = await device.predict(text);
    const { label, tier, degraded } = outputs[0];
    withEdge.push({ label, tier, degraded, source });
  }
  return {
    deviceOnly,
    withEdge,
    edgeRequestCount,
    loadMs,
    p50Ms: durationsMs.toSorted((a, b) => a - b)[Math.floor(durationsMs.length / 2)] ?? 0,
  };
}
