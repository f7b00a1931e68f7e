// Route scopes: the scope that each path requires.
import { describe, expect, it } from "vitest";
import { scopeRequirementOf } from "../../../src/http/access/route-scopes.ts";

describe("scopeRequirementOf", () => {
  it.each([
    ["/", undefined],
    ["/docs", undefined],
    ["/openapi.json", undefined],
    ["/v2/health/live", undefined],
    ["/v2/health/ready", undefined],
    ["/v1/models/intent/predict", "predict"],
    ["/v1/models/intent@canary/predict", "predict"],
    ["/v1/embeddings", "predict"],
    ["/v2/models/intent/infer", "predict"],
    ["/v2/models/intent/versions/3/infer", "predict"],
    ["/v1/models", "metadata"],
    ["/v1/models/intent", "metadata"],
    ["/v1/regions", "metadata"],
    ["/v2", "metadata"],
    ["/v2/", "metadata"],
    ["/v2/models/intent", "metadata"],
    ["/v2/models/intent/ready", "metadata"],
    ["/v2/repository/index", "metadata"],
    ["/metrics", "admin"],
    ["/v1/admin/purge", "admin"],
    ["/admin", "admin"],
  ])("maps %s to %s", (path, scope) =>
    expect(scopeRequirementOf(path)).toEqual({ scope, isKnownPath: true }),
  );

  it.each([
    "/v3",
    "/docs/x",
    "/v2/health",
    "/v2/health/live/",
    "/nothing",
    "/metricsx",
    "//docs",
    "/v2/health/ready/../../models",
  ])("requires a scope for %s", (path) => {
    expect(scopeRequirementOf(path).scope).toBeDefined();
  });
});
