// Routes of Triton's model repository extension: index, loading and unloading by name.

import type { Hono } from "hono";
import { coreErrors } from "../../../core/common-errors.ts";
import { asEdgeTierError } from "../../../core/errors.ts";
import {
  validateLoadRequest,
  validateUnloadRequest,
  parseIndexRequest,
} from "../../../protocol/model-repository-requests.ts";
import { readRequestBody } from "../../../protocol/read-request-body.ts";
import { regionServerErrors } from "../errors.ts";
import type { ModelRepository } from "../model-repository.ts";
import { addRoute, readModelName, sendJson, type RegionEnv } from "./route-helpers.ts";

/** Maximum body size; bodies contain at most a few options. */
const MAX_BYTES = 65_536;

export function addRepositoryRoutes(app: Hono<RegionEnv>, repository: ModelRepository): void {
  addRoute(
    app,
    "index",
    ["POST"],
    ["/v2/repository/index", "/v2/repository/:repository/index"],
    async (c) => {
      const { ready = false } = parseIndexRequest(
        await readRequestBody(c.req.raw, MAX_BYTES, c.get("checkBody")),
      );
      const entries = await repository.listIndex();
      return await sendJson(c, ready ? entries.filter(({ state }) => state === "READY") : entries);
    },
  );

  addRoute(app, "load", ["POST"], ["/v2/repository/models/:model/load"], async (c) => {
    const model = readModelName(c);
    validateLoadRequest(await readRequestBody(c.req.raw, MAX_BYTES, c.get("checkBody")));
    try {
      await repository.load(model);
    } catch (error) {
      throw regionServerErrors.loadFailed(model, asEdgeTierError(error));
    }
    return c.json({});
  });

  addRoute(app, "unload", ["POST"], ["/v2/repository/models/:model/unload"], async (c) => {
    const model = readModelName(c);
    validateUnloadRequest(await readRequestBody(c.req.raw, MAX_BYTES, c.get("checkBody")));
    await repository.unload(model);
    return c.json({});
  });

  addRoute(
    app,
    "unsupported",
    ["POST"],
    [
      "/v2/repository/:repository/models/:model/load",
      "/v2/repository/:repository/models/:model/unload",
    ],
    async () => {
      throw coreErrors.unsupported(
        "'repository_name' specification",
        "There is one repository: leave its name out of the path.",
      );
    },
  );
}
