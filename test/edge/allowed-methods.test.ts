// Allowed methods: 405 with `allow` on every known path of the edge, in workerd, after access control.
import { beforeAll, describe, expect, it } from "vitest";
import { createApiKeyAuthenticator } from "../../src/http/access/drivers/api-key-authenticator.ts";
import type { OpenApiDocument } from "../../src/http/openapi.ts";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { createTestApiKey } from "../support/test-credentials.ts";
import { fullDeployment } from "./full-engine.ts";

const METHODS = ["GET", "HEAD", "POST", "QUERY", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** Paths that the OpenAPI document leaves out, with their methods. */
const OTHER_PATHS: Readonly<Record<string, readonly string[]>> = {
  "/": ["GET"],
  "/docs": ["GET"],
  "/openapi.json": ["GET"],
  "/v2/": ["GET"],
  "/v2/models/{model}/versions/1": ["GET"],
  "/v2/models/{model}/versions/1/ready": ["GET"],
  "/v2/models/{model}/versions/1/infer": ["POST"],
};
/** OpenAPI 3.1 has no QUERY. */
const QUERY_PATHS = ["/v1/models/{model}/predict"];

/** Hono serves HEAD with the route of GET. */
const isAllowed = (method: string, allowed: readonly string[]): boolean =>
  allowed.includes(method === "HEAD" ? "GET" : method);
const toUrlPath = (path: string, model = "toy"): string => path.replace("{model}", model);

async function listRoutes({ app }: EdgeUnderTest): Promise<[path: string, methods: string[]][]> {
  const document: OpenApiDocument = await (await app.request("/openapi.json")).json();
  const documented = Object.entries(document.paths).map(([path, operations]) => {
    const methods = Object.keys(operations).map((method) => method.toUpperCase());
    return [path, QUERY_PATHS.includes(path) ? [...methods, "QUERY"] : methods] as const;
  });
  return [...documented, ...Object.entries(OTHER_PATHS)].map(([path, methods]) => [
    path,
    [...methods],
  ]);
}

/** Triton's own text under /v2, otherwise problem details. */
const expectedBody = (path: string): unknown =>
  path.startsWith("/v2")
    ? { error: expect.stringMatching(/^Method Not Allowed/) }
    : expect.objectContaining({ status: 405, code: "method_not_allowed" });

describe("a known path", () => {
  let edge: EdgeUnderTest;
  let routes: [path: string, methods: string[]][];
  beforeAll(async () => {
    edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
      createAccess: () => ({ authenticators: [], metricsScope: "metadata" }),
    });
    routes = await listRoutes(edge);
  });

  it("is in this test if it has a route", () => {
    const known = routes.map(([path]) =>
      path.replace(/\{model\}/, ":model").replace("/1", "/:version"),
    );
    const registered = edge.app.routes.filter(({ method }) => method !== "ALL");
    expect(new Set(registered.map(({ path }) => path))).toEqual(new Set(known));
  });

  it("answers 405 with `allow` for every other method", async () => {
    for (const [path, methods] of routes) {
      for (const method of METHODS.filter((other) => !isAllowed(other, methods))) {
        const response = await edge.app.request(toUrlPath(path), { method });
        const call = `${method} ${path}`;
        expect(response.status, call).toBe(405);
        expect(response.headers.get("allow")?.split(", ").toSorted(), call).toEqual(
          methods.toSorted(),
        );
        if (method === "HEAD") continue;
        expect(await response.json(), call).toEqual(expectedBody(path));
      }
    }
  });

  it("does not answer 405 for its own methods", async () => {
    for (const [path, methods] of routes)
      for (const method of METHODS.filter((own) => isAllowed(own, methods))) {
        const { status } = await edge.app.request(toUrlPath(path), { method });
        expect(status, `${method} ${path}`).not.toBe(405);
      }
  });

  it("of Triton's extensions answers 501 for every method", async () => {
    for (const path of ["/v2/repository/index", "/v2/models/stats", "/v2/models/toy/config"])
      for (const method of ["GET", "POST", "DELETE"])
        expect((await edge.app.request(path, { method })).status, `${method} ${path}`).toBe(501);
  });
});

describe("an unknown path", () => {
  it("answers 404 for every method", async () => {
    const edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
    for (const path of ["/v1/nothing", "/v1/models/toy/nothing", "/nothing"])
      for (const method of ["GET", "POST", "DELETE"])
        expect((await edge.app.request(path, { method })).status, `${method} ${path}`).toBe(404);
  });
});

describe("a wrong method with access control", () => {
  const PUBLIC_PATHS = ["/", "/docs", "/openapi.json", "/v2/health/live", "/v2/health/ready"];

  it("is rejected by access control first, on every path that requires a credential", async () => {
    const key = await createTestApiKey({ scopes: ["admin"] });
    const edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
      createAccess: (clock) => ({
        authenticators: [createApiKeyAuthenticator([key.entry], clock)],
      }),
    });
    const withKey = { authorization: `Bearer ${key.key}` };
    for (const [path] of await listRoutes(edge)) {
      const send = async (headers: Record<string, string>) =>
        (await edge.app.request(toUrlPath(path), { method: "DELETE", headers })).status;
      const isPublic = PUBLIC_PATHS.includes(path);
      expect(await send({}), path).toBe(isPublic ? 405 : 401);
      expect(await send(withKey), path).toBe(isPublic || path === "/metrics" ? 405 : 403);
    }
  });

  it("reveals neither whether a model exists nor whether the key allows it", async () => {
    const key = await createTestApiKey({ scopes: ["predict", "metadata"], models: ["other"] });
    const edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
      createAccess: (clock) => ({
        authenticators: [createApiKeyAuthenticator([key.entry], clock)],
      }),
    });
    const headers = { authorization: `Bearer ${key.key}` };
    for (const [path] of (await listRoutes(edge)).filter(([path]) => path.includes("{model}")))
      for (const model of ["toy", "other", "unknown"]) {
        const response = await edge.app.request(toUrlPath(path, model), {
          method: "DELETE",
          headers,
        });
        expect(response.status, `${path} ${model}`).toBe(405);
      }
  });
});
