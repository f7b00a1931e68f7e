// RegionClient for a region app in the same process, without a network: for tests and tools.

import type { RegionClient } from "../region-client.ts";
import { createOipHttpRegionClient } from "./oip-http.ts";

/** @param fetch of an app from `createRegionApp` */
export function createInProcessRegionClient(
  fetch: (request: Request) => Response | Promise<Response>,
): RegionClient {
  return createOipHttpRegionClient({
    baseUrl: "http://region.invalid",
    fetch: async (url, init) => {
      const request = new Request(url, init);
      const { signal } = request;
      signal.throwIfAborted();
      // An app may finish a request that was aborted; a fetch over a network would end here.
      const aborted = new Promise<never>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
      );
      return await Promise.race([fetch(request), aborted]);
    },
  });
}
