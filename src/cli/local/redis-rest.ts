// The Redis REST interface, a process of its own: Upstash's HTTP commands in front of a real Redis, on loopback only.
// It says where it listens with one JSON line.

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

/** The library asks for the token at `/` only, and not at `/pipeline`. */
function handleAuthorized(request: Request): Response | Promise<Response> {
  const allowed = request.headers.get("authorization") === `Bearer ${token}`;
  return allowed ? app.fetch(request) : Response.json({ error: "Unauthorized" }, { status: 401 });
}
