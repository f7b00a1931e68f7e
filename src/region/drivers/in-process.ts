// RegionClient onto a region's app in the same process, without a network: for tests and tools.

import type { RegionClient } from "../region-client.ts";
import { createOipHttpRegionClient } from "./oip-http.ts";

/** @param fetch of the app that `createRegionApp` makes */
export function createInProcessRegionClient(
  fetch: (request: Request) => Response | Promise<Response>,
): RegionClient {
  return createOipHttpRegionClient({
    baseUrl: "http://region.invalid",
    fetch: async (url, init) => {
      const request = new Request(url, init);
      const { signal } = request;
      signal.throwIfAborted();
      // An app may finish a request that nobody waits for any more; a fetch over a network would have ended here.
      const aborted = new Promise<never>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true }),
      );
      return await Promise.race([fetch(request), aborted]);
    },
  });
}
