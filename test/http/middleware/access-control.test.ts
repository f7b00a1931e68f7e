// Access control: the tenant and arrival time that a route sees.
import { Hono } from "hono";
import { expect, it } from "vitest";
import { ManualClock } from "../../../src/core/clock.ts";
import { passthroughTracer } from "../../../src/core/tracing.ts";
import type { Authenticator } from "../../../src/http/access/authenticator.ts";
import type { AppEnv } from "../../../src/http/app-env.ts";
import { accessControl } from "../../../src/http/middleware/access-control.ts";
import { attachRequestContext } from "../../../src/http/middleware/request-context.ts";
import { requestTracing } from "../../../src/http/middleware/request-tracing.ts";

function startApp(authenticators: readonly Authenticator[], clock = new ManualClock(1_000)) {
  const app = new Hono<AppEnv>()
    .use(requestTracing({ tracer: passthroughTracer, clock, log: undefined }))
    .use(attachRequestContext(clock))
    .use(...accessControl({ authenticators }));
  app.get("/v1/models", (c) =>
    c.json({ tenant: c.get("context").tenant, arrivedAtMs: c.get("context").arrivedAtMs }),
  );
  return app;
}

const headers = { authorization: "Bearer acme" };

it("sets the tenant, and counts authentication within the deadline", async () => {
  const clock = new ManualClock(1_000);
  const slow: Authenticator = {
    recognizes: () => true,
    async authenticate(credential) {
      clock.advance(70);
      return { id: "one", tenant: credential, scopes: ["metadata"] };
    },
  };
  const response = await startApp([slow], clock).request("/v1/models", { headers });
  expect(await response.json()).toEqual({ tenant: "acme", arrivedAtMs: 1_000 });
  expect(response.headers.get("server-timing")).toBe("access;dur=70, total;dur=70");
});

it("sets no tenant if the deployment requires no credential", async () => {
  expect(await (await startApp([]).request("/v1/models", { headers })).json()).toMatchObject({
    tenant: "",
  });
});
