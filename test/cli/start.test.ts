// `edgetier start`: busy ports are named before anything starts, parts that fail are named, and Ctrl-C leaves nothing.
import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findFreePort, assertPortsFree } from "../../src/cli/local/ports.ts";
import { startLocalSystem } from "../../src/cli/local/system.ts";
import { spawnEdgetier, startEdgetier } from "../support/edgetier-command.ts";

/** A user's machine may have none. */
const hasRedis = spawnSync("redis-server", ["--version"]).status === 0;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-start-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function freePorts() {
  const ports = {
    EDGETIER_PORT: 0,
    EDGETIER_REGION_PORT: 0,
    EDGETIER_S3_PORT: 0,
    EDGETIER_REDIS_REST_PORT: 0,
  };
  for (const variable of Object.keys(ports) as (keyof typeof ports)[])
    ports[variable] = await findFreePort();
  return ports;
}
const asVariables = (ports: object) =>
  Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, `${port}`]));

describe("ports", () => {
  const listeners: Server[] = [];
  afterAll(() => listeners.forEach((one) => one.close()));
  const occupy = (port: number) =>
    new Promise<void>((resolve) => {
      const server = createServer().listen(port, "127.0.0.1", resolve);
      listeners.push(server);
    });

  it("names every busy one with its variable, and starts nothing", async () => {
    const ports = await freePorts();
    await occupy(ports.EDGETIER_PORT);
    await occupy(ports.EDGETIER_S3_PORT);
    const ran = await spawnEdgetier(["start", "--json"], {
      ...asVariables(ports),
      EDGETIER_STATE: join(folder, "never"),
    });
    expect(ran).toMatchObject({ code: 1, stdout: "" });
    const problems = ran.stderr
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(problems).toMatchObject([
      { code: "port_in_use", remedy: expect.stringContaining("EDGETIER_PORT=") },
      { code: "port_in_use", remedy: expect.stringContaining("EDGETIER_S3_PORT=") },
    ]);
    await expect(
      assertPortsFree({ EDGETIER_REGION_PORT: ports.EDGETIER_REGION_PORT }),
    ).resolves.toBeUndefined();
  });

  it("rejects one port for two parts, and an invalid port", async () => {
    const port = `${await findFreePort()}`;
    expect(
      await spawnEdgetier(["start"], { EDGETIER_PORT: port, EDGETIER_S3_PORT: port }),
    ).toMatchObject({ code: 1, stderr: expect.stringContaining(port) });
    expect(await spawnEdgetier(["start"], { EDGETIER_PORT: "70000" })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("EDGETIER_PORT"),
    });
  });
});

const worker = "export default { fetch: (request, env) => Response.json({ ...env }) };";
const region = `
  import { createServer } from "node:http";
  const server = createServer((request, response) => {
    if (request.url === "/die") process.exit(3);
    response.end("ok");
  });
  server.listen(Number(process.env.EDGETIER_REGION_PORT), "127.0.0.1", () =>
    console.log(JSON.stringify({ event: "listening", url: "http://127.0.0.1:" + server.address().port })));`;

async function stubs(files: { worker?: string; region?: string } = {}) {
  const stub = await mkdtemp(join(folder, "stub-"));
  await writeFile(
    join(stub, "wrangler.toml"),
    'name = "stub"\nmain = "worker.js"\ncompatibility_date = "2026-10-01"\n[vars]\nEDGETIER_S3_BUCKET = "overridden"\n',
  );
  await writeFile(join(stub, "worker.js"), files.worker ?? worker);
  await writeFile(join(stub, "region.mjs"), files.region ?? region);
  await mkdir(join(stub, "models"));
  return {
    stateFolder: join(stub, "state"),
    wranglerConfig: join(stub, "wrangler.toml"),
    regionFile: join(stub, "region.mjs"),
    modelsFolder: join(stub, "models"),
    deploymentFolder: join(stub, "edge"),
  };
}

describe("parts", () => {
  it("start with each other's addresses, and may be stopped twice", async () => {
    const system = await startLocalSystem({ ...(await stubs()), edgeVariables: { EXTRA: "1" } });
    const seen = await (await fetch(system.urls.edge)).json();
    expect(seen).toMatchObject({
      EXTRA: "1",
      EDGETIER_S3_BUCKET: "edgetier-models",
      EDGETIER_S3_ENDPOINT: system.urls.s3,
      EDGETIER_REGION_URL: system.urls.region,
    });
    await system.stop();
    await system.stop();
    for (const url of Object.values(system.urls))
      await expect(fetch(url)).rejects.toThrow("fetch failed");
  });

  it.skipIf(!hasRedis)("include a Redis that requires the token, for pipelines too", async () => {
    const system = await startLocalSystem({ ...(await stubs()), withRegion: false });
    const set = (token: string | undefined) =>
      fetch(`${system.urls.redis}/pipeline`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}` },
        body: '[["SET","k","v"],["GET","k"]]',
      });
    expect(await (await set(system.redisToken)).json()).toEqual([
      { result: "OK" },
      { result: "v" },
    ]);
    expect((await set("wrong")).status).toBe(401);
    await system.stop();
  });

  it("start without Redis if none is installed, and log it", async () => {
    const lines: string[] = [];
    const path = process.env["PATH"];
    process.env["PATH"] = folder;
    try {
      const system = await startLocalSystem({
        ...(await stubs()),
        withRegion: false,
        log: (line) => lines.push(line),
      });
      expect(system.urls.redis).toBeUndefined();
      await system.stop();
    } finally {
      process.env["PATH"] = path;
    }
    expect(lines).toContainEqual(expect.stringContaining("L2 cache"));
  });
});

describe("failing parts", () => {
  it("are reported when they exit", async () => {
    const system = await startLocalSystem({ ...(await stubs()), withRedis: false });
    await fetch(`${system.urls.region}/die`).catch(() => {});
    expect(await system.died).toMatchObject({
      code: "component_died",
      detail: expect.stringMatching(/region.*exit code 3/),
    });
    await system.stop();
  });

  it("stop the parts that started earlier", async () => {
    const lines: string[] = [];
    const broken = await stubs({ region: 'console.error("no GPU"); process.exit(1);' });
    const ports = await freePorts();
    await expect(
      startLocalSystem({
        ...broken,
        ports,
        onLine: (part, line) => lines.push(`${part}: ${line}`),
      }),
    ).rejects.toMatchObject({
      code: "component_failed",
      detail: expect.stringContaining("region"),
    });
    expect(lines).toContain("region: no GPU");
    await assertPortsFree(ports);
  });

  it("include a Worker that cannot be bundled", async () => {
    const broken = await stubs({ worker: "export default {" });
    await expect(
      startLocalSystem({ ...broken, withRedis: false, withRegion: false }),
    ).rejects.toMatchObject({ code: "component_failed", detail: expect.stringContaining("edge") });
  });
});

describe("the command", () => {
  it.each(["SIGINT", "SIGTERM"] as const)(
    "prints where everything listens, and %s stops it all with exit code 0",
    async (signal) => {
      const ports = await freePorts();
      const running = startEdgetier(["start", "--json"], {
        ...asVariables(ports),
        EDGETIER_STATE: join(folder, "state"),
      });
      await running.waitForOutput(/\n/);
      running.signal(signal);
      const { code, stdout } = await running.result; // also waits for everything that holds its output
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({
        urls: {
          edge: `http://127.0.0.1:${ports.EDGETIER_PORT}`,
          region: `http://127.0.0.1:${ports.EDGETIER_REGION_PORT}`,
        },
      });
      await assertPortsFree(ports);
    },
    60_000,
  );

  it("stops cleanly while it is still starting", async () => {
    const ports = await freePorts();
    const running = startEdgetier(["start"], {
      ...asVariables(ports),
      EDGETIER_STATE: join(folder, "state"),
    });
    const hasBegun = () =>
      fetch(`http://127.0.0.1:${ports.EDGETIER_S3_PORT}/`).then(
        () => true,
        () => false,
      ); // its first part
    await expect.poll(hasBegun, { timeout: 30_000 }).toBe(true);
    running.signal("SIGINT");
    expect((await running.result).code).toBe(0);
    await assertPortsFree(ports);
  }, 60_000);
});
