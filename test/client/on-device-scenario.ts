// An app's page with the exported model beside it, in a browser: every text on the device alone, and with the edge behind it.
import { createClient } from "../../src/client/index.ts";
import {
  openOnDevice,
  type Ort,
  type OrtTensor,
  type ReadFile,
} from "../../src/client/on-device.ts";

export interface OnDeviceScenarioResult {
  readonly deviceOnly: readonly { readonly label: string; readonly confidence: number }[];
  readonly withEdge: readonly {
    readonly label: string;
    readonly tier: string;
    readonly degraded: boolean;
    readonly source: string;
  }[];
  /** That reached the edge. */
  readonly edgeRequestCount: number;
  readonly loadMs: number;
  /** Of one text on the device alone. */
  readonly p50Ms: number;
}

const readFile: ReadFile = async (name) =>
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
  let requests = 0;
  const edge = createClient({
    url,
    deadlineMs: 20_000,
    fetch: (input, init) => {
      requests++;
      return fetch(input, init);
    },
  });
  const startedMs = performance.now();
  const device = await openOnDevice({ ort, readFile, edge });
  const openedMs = performance.now() - startedMs;
  const last = device.manifest.tiers.at(-1)?.id;
  const alone: OnDeviceScenarioResult["deviceOnly"][number][] = [];
  const times: number[] = [];
  for (const text of texts) {
    const fromMs = performance.now();
    const { outputs } = await device.predict(text, { maxTier: last });
    times.push(performance.now() - fromMs);
    alone.push({ label: outputs[0].label, confidence: outputs[0].confidence });
  }
  const answers: OnDeviceScenarioResult["withEdge"][number][] = [];
  for (const text of texts) {
    const { outputs, source } = await device.predict(text);
    const { label, tier, degraded } = outputs[0];
    answers.push({ label, tier, degraded, source });
  }
  return {
    deviceOnly: alone,
    withEdge: answers,
    edgeRequestCount: requests,
    loadMs: openedMs,
    p50Ms: times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? 0,
  };
}
