// `edgetier precompute` against a real edge in workerd with a real Redis, and what of HTTP only a socket can send.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalSystem, startLocalSystem } from "../../src/cli/local/system.ts";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import { parseFailure, runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { hasRedisServer } from "../support/redis.ts";

const TEXTS = [
  "what is the exchange rate between dollars and euros",
  "freeze my account",
  "what is the exchange rate between dollars and yen",
  "how do i change my pin",
];

let folder: string;
let inputs: string;
let system: LocalSystem;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-precompute-"));
  inputs = join(folder, "top.jsonl");
  await writeFile(inputs, TEXTS.map((one) => JSON.stringify({ text: one })).join("\n"));
  system = await startLocalSystem({
    stateFolder: folder,
    withRegion: false,
    edgeVariables: {
      EDGETIER_L1_MAX_BYTES: "0",
      EDGETIER_CDN_CACHE: "off",
      EDGETIER_REDIS_TIMEOUT_MS: "2000",
    },
  });
});
afterAll(async () => {
  await system?.stop();
  await rm(folder, { recursive: true, force: true });
});

const precompute = (...more: string[]) =>
  runEdgetier([
    "precompute",
    "--model",
    "intent",
    "--inputs",
    inputs,
    "--url",
    system.urls.edge,
    "--json",
    ...more,
  ]);

describe.skipIf(!hasRedisServer)("precompute (needs a redis-server on the PATH)", () => {
  it("fills L2, counts cached answers, and reports answers that no cache stores", async () => {
    const first = await precompute("--batch", "3");
    const { asked, cached, computed, failed } = JSON.parse(first.stdout);
    expect({ asked, cached, all: computed + failed }).toEqual({ asked: 4, cached: 0, all: 4 });
    expect(computed).toBeGreaterThan(0); // without a region, unsure answers of the edge are degraded
    expect(first.code).toBe(failed === 0 ? 0 : 1);

    const again = await precompute("--rate", "1000");
    expect(JSON.parse(again.stdout)).toMatchObject({
      model: "intent",
      asked: 4,
      cached: computed,
      failed,
      hitShare: computed / 4,
    });
    expect(JSON.parse(await readFile(`${inputs}.precomputed.json`, "utf8"))).toMatchObject({
      model: "intent",
      progress: { asked: 4 },
    });

    const response = await fetch(`${system.urls.edge}/v1/models/intent/predict`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ inputs: TEXTS[0] }),
    });
    expect(response.headers.get("x-edgetier-cache")).toBe("l2");
    expect(predictResponseSchema.parse(await response.json()).outputs).toMatchObject([
      { label: "exchange_rate" },
    ]);
  });
});

describe.skipIf(!hasRedisServer)("errors of precompute (needs a redis-server on the PATH)", () => {
  it.each([
    [["--batch", "0"], "--batch"],
    [["--rate", "fast"], "--rate"],
    [["--inputs", "missing.jsonl"], "ENOENT"],
  ])("reject %j with exit code 2 and name %s", async (more, value) => {
    expect(parseFailure(await precompute(...more))).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining(value),
    });
  });

  it("report an unknown model", async () => {
    const args = ["precompute", "--model", "nothing", "--inputs", inputs];
    expect(await runFailingEdgetier([...args, "--url", system.urls.edge])).toMatchObject({
      exitCode: 1,
      code: "model_not_found",
    });
  });

  it("report an unreachable edge", async () => {
    const args = ["precompute", "--model", "intent", "--inputs", inputs];
    expect(await runFailingEdgetier([...args, "--url", "http://127.0.0.1:1"])).toMatchObject({
      exitCode: 1,
      code: "edge_unreachable",
    });
  });
});

describe("a GET with a body", () => {
  it("is answered by its URL alone", async () => {
    const body = JSON.stringify({ inputs: "freeze my account" });
    const answered = await new Promise<string>((resolve, reject) => {
      const sent = httpRequest(
        `${system.urls.edge}/v1/models/intent/predict?input=${encodeURIComponent(TEXTS[0] ?? "")}`,
        { headers: { "content-type": "application/json", "content-length": body.length } },
        (response) => {
          text(response).then(resolve, reject);
        },
      );
      sent.on("error", reject).end(body);
    });
    expect(predictResponseSchema.parse(JSON.parse(answered)).outputs[0]?.label).toBe(
      "exchange_rate",
    );
  });
});
