// Redis REST interface: serves Upstash's HTTP commands from a real Redis, as a separate process on loopback.
// It prints its address as one JSON line.

import { serve } from "@hono/node-server";
import { createApp } from "@humanwhocodes/upstash-redis-server";
import { LOOPBACK } from "./defaults.ts";

const { PORT, URS_TOKEN: token = "", REDIS_URL: redisUrl } = process.env;
const app = createApp({ token, redisUrl });

serve({ fetch: handleAuthorized, hostname: LOOPBACK, port: Number(PORT) }, ({ port }) => {
  process.stdout.write(
    `${JSON.stringify({ event: "listening", url: `http://${LOOPBACK}:${port}` })}\n`,
  );
});

/** Checks the token on every path, because the library checks it only at `/`, not at `/pipeline`. */
function handleAuthorized(request: Request): Response | Promise<Response> {
  const allowed = request.headers.get("authorization") === `Bearer ${token}`;
  return allowed ? app.fetch(request) : Response.json({ error: "Unauthorized" }, { status: 401 });
}
