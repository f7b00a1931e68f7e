// Controlled backends: a region and a store whose failures a test switches on and off. No imports from Node: it runs in workerd.
import { coreErrors } from "../../src/core/common-errors.ts";
import type { NamedTensors } from "../../src/core/tensor.ts";
import { createOipHttpRegionClient } from "../../src/region/drivers/oip-http.ts";
import { regionErrors } from "../../src/region/errors.ts";
import type { RegionClient, RegionRequest } from "../../src/region/region-client.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";

export interface BackendControls {
  /** Behavior of the region from now on. */
  regionBehavior: "up" | "down" | "hangs";
  /** Saturation that the region client reports. */
  isRegionSaturated: boolean;
  isStoreDown: boolean;
  /** Store calls that failed because the store was down. */
  failedStoreCallCount: number;
  /** The region's response to forwarded requests. */
  createRegionResponse: () => Response;
}

export interface ControlledRegion {
  readonly client: RegionClient;
  /** Requests that reached the region. */
  readonly regionRequests: RegionRequest[];
  /** Requests forwarded to the region unchanged, and readiness requests. */
  readonly forwardedRequests: Request[];
}

/** @param computeOutputs outputs of the region's graphs; by default logits for a confident "no" or "green" */
export function createControlledRegion(
  controls: BackendControls,
  computeOutputs: (request: RegionRequest) => NamedTensors = computeConfidentLogits,
): ControlledRegion {
  const regionRequests: RegionRequest[] = [];
  const forwardedRequests: Request[] = [];
  const httpClient = createOipHttpRegionClient({
    baseUrl: "http://region.test",
    async fetch(url, init) {
      forwardedRequests.push(new Request(url, init));
      if (controls.regionBehavior === "down") throw new TypeError("connection refused");
      if (controls.regionBehavior === "hangs") return await waitForAbort(init.signal);
      return controls.createRegionResponse();
    },
  });
  const client: RegionClient = {
    ...httpClient,
    async infer(request, signal) {
      regionRequests.push(request);
      if (controls.regionBehavior === "down")
        throw regionErrors.regionUnavailable("connection refused");
      if (controls.regionBehavior === "hangs") await waitForAbort(signal);
      return computeOutputs(request);
    },
    isReady: async () => controls.regionBehavior === "up",
    isSaturated: () => controls.isRegionSaturated,
  };
  return { client, regionRequests, forwardedRequests };
}

/** Rejects every call of the store while `isStoreDown`. */
export const createControlledStore = (store: ModelStore, controls: BackendControls): ModelStore =>
  new Proxy(store, {
    get(target, method, receiver) {
      if (controls.isStoreDown) {
        return () => {
          controls.failedStoreCallCount++;
          return Promise.reject(coreErrors.storeUnavailable("connection refused"));
        };
      }
      return Reflect.get(target, method, receiver);
    },
  });

/** The label at index 1 gets all the confidence. The region's own tests cover how a real region computes logits. */
function computeConfidentLogits({ inputs, model }: RegionRequest): NamedTensors {
  const rows = inputs.length;
  const labels = model === "colours" ? 3 : 2;
  const data = Float32Array.from({ length: rows * labels }, (_, index) =>
    index % labels === 1 ? 9 : 0,
  );
  return { logits: { datatype: "FP32", shape: [rows, labels], data } };
}

const waitForAbort = (signal: AbortSignal | null | undefined): Promise<never> =>
  new Promise<never>((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
