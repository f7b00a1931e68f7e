// The state of `edgetier start` across restarts, and the variables that reach its edge.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { selectEdgeVariables } from "../../src/cli/local/edge-environment.ts";
import { findFreePort } from "../../src/cli/local/ports.ts";
import { startLocalS3 } from "../../src/cli/local/s3.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { startEdgetier } from "../support/edgetier-command.ts";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-start-state-"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

const startOutputSchema = z.object({
  urls: z.object({ edge: z.string() }),
  models: z.array(z.object({ model: z.string(), outcome: z.string() })),
  prediction: z.object({ label: z.string() }).nullable(),
});

async function startOnce(args: readonly string[], variables: Readonly<Record<string, string>>) {
  const running = startEdgetier(["start", "--json", ...args], {
    EDGETIER_PORT: String(await findFreePort()),
    EDGETIER_REGION_PORT: String(await findFreePort()),
    EDGETIER_S3_PORT: String(await findFreePort()),
    EDGETIER_REDIS_REST_PORT: String(await findFreePort()),
    EDGETIER_STATE: join(folder, "command"),
    ...variables,
  });
  await running.waitForOutput(/\n/);
  return {
    async stop() {
      running.signal("SIGINT");
      const { stdout } = await running.result;
      return startOutputSchema.parse(JSON.parse(stdout));
    },
    edge: `http://127.0.0.1:${variables["EDGETIER_PORT"] ?? ""}`,
  };
}

describe("the local model store", () => {
  it("keeps its objects when it is stopped and started again", async () => {
    const options = { port: 0, folder: join(folder, "s3") };
    const first = await startLocalS3(options);
    await createS3ObjectStore(first.options).put(
      "models/a.json",
      new TextEncoder().encode("{}"),
      { kind: "any" },
      "application/json",
    );
    await first.stop();
    const second = await startLocalS3(options);
    const stored = await createS3ObjectStore(second.options).get("models/a.json");
    await second.stop();
    expect(await new Response(stored?.body).text()).toBe("{}");
  }, 30_000);
});

describe("edgetier start", () => {
  it("keeps published versions across restarts, and starts empty with --fresh", async () => {
    const outcomes: Record<string, string | undefined> = {};
    for (const { run, args } of [
      { run: "first", args: [] },
      { run: "second", args: [] },
      { run: "fresh", args: ["--fresh"] },
    ]) {
      const { models } = await (await startOnce(args, {})).stop();
      outcomes[run] = models.find(({ model }) => model === "intent")?.outcome;
    }
    expect(outcomes).toEqual({ first: "published", second: "unchanged", fresh: "published" });
  }, 120_000);

  it("passes EDGETIER_API_KEYS to the edge, and EDGETIER_API_KEY to its own prediction", async () => {
    const created = startEdgetier([
      "keys",
      "create",
      "--tenant",
      "acme",
      "--scope",
      "predict,metadata",
      "--json",
    ]);
    const { key, entry } = z
      .object({ key: z.string(), entry: z.record(z.string(), z.unknown()) })
      .parse(JSON.parse((await created.result).stdout));
    const port = String(await findFreePort());
    const system = await startOnce([], {
      EDGETIER_PORT: port,
      EDGETIER_API_KEYS: JSON.stringify([entry]),
      EDGETIER_API_KEY: key,
    });
    const statusOf = async (headers: Record<string, string>) =>
      (await fetch(`${system.edge}/v1/models`, { headers })).status;
    expect({
      withoutKey: await statusOf({}),
      withKey: await statusOf({ authorization: `Bearer ${key}` }),
    }).toEqual({ withoutKey: 401, withKey: 200 });
    expect((await system.stop()).prediction).toMatchObject({ label: expect.any(String) });
  }, 60_000);
});

describe("selectEdgeVariables", () => {
  it("leaves out the variables that the local system sets, and those of other programs", () => {
    const selected = selectEdgeVariables({
      EDGETIER_API_KEYS: "[]",
      EDGETIER_MAX_IN_FLIGHT: "8",
      EDGETIER_S3_ENDPOINT: "https://production.example",
      EDGETIER_REDIS_REST_URL: "https://production.example",
      EDGETIER_REGION_URL: "https://production.example",
      EDGETIER_REGIONS: "[]",
      EDGETIER_TRUSTED_KEYS: "x",
      HOME: "/home/somebody",
    });
    expect(selected).toEqual({ EDGETIER_API_KEYS: "[]", EDGETIER_MAX_IN_FLIGHT: "8" });
  });
});
