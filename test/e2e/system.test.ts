// The whole system as `npm start` brings it up: real workerd, region process, S3 and Redis, with the models `intent` and
// `vision`.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startLocalEdge } from "../../src/cli/local/edge.ts";
import { MODELS_FOLDER, WRANGLER_CONFIG } from "../../src/cli/local/paths.ts";
import { findFreePort } from "../../src/cli/local/ports.ts";
import { type LocalSystem, startLocalSystem } from "../../src/cli/local/system.ts";
import { expectFloat32Tensor } from "../../src/core/tensor.ts";
import { metricsSnapshotSchema } from "../../src/protocol/metrics-snapshot.ts";
import {
  decodeInferResponse,
  encodeInferRequest,
  type InferRequest,
  type InferResponse,
  JSON_LENGTH_HEADER,
} from "../../src/protocol/open-inference.ts";
import { type PredictResponse, predictResponseSchema } from "../../src/protocol/predict.ts";
import { createSignedFetch } from "../../src/region/signed-fetch.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import ESCALATED_TEXT from "../fixtures/escalated-text.json" with { type: "json" };
import { hasRedisServer } from "../support/redis.ts";
import { startTcpProxy, type TcpProxy } from "../support/tcp-proxy.ts";

/** Nothing that the edge tier could be sure of. */

let folder: string;
let system: LocalSystem;
let proxies: { readonly s3: TcpProxy; readonly region: TcpProxy; readonly redis: TcpProxy };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-e2e-"));
  proxies = {
    s3: await startTcpProxy(),
    region: await startTcpProxy(),
    redis: await startTcpProxy(),
  };
  system = await startLocalSystem({
    stateFolder: folder,
    edgeVariables: {
      EDGETIER_S3_ENDPOINT: `${proxies.s3.url}/cdn-cgi/local/r2/s3`,
      EDGETIER_REGION_URL: proxies.region.url,
      ...(hasRedisServer ? { EDGETIER_REDIS_REST_URL: proxies.redis.url } : {}),
      EDGETIER_REDIS_TIMEOUT_MS: "1000",
      EDGETIER_L1_MAX_BYTES: "0", // L2 has to answer
      EDGETIER_CDN_CACHE: "off",
    },
  });
  proxies.s3.target = system.urls.s3;
  proxies.region.target = system.urls.region ?? "";
  proxies.redis.target = system.urls.redis ?? "";
});

afterEach(() => {
  for (const proxy of Object.values(proxies)) proxy.behavior = "forwards";
});

afterAll(async () => {
  await system?.stop();
  await Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
  await rm(folder, { recursive: true, force: true });
});

interface PredictResult {
  readonly output: PredictResponse["outputs"][number];
  readonly response: Response;
}

/** Long, because a cascade on a busy machine would otherwise skip its region; these tests are about answers only. */
const LONG_DEADLINE = { "x-deadline-ms": "10000" };

async function predict(
  inputs: string,
  parameters: object = { cache: "bypass" },
  headers: Record<string, string> = LONG_DEADLINE,
): Promise<PredictResult> {
  const response = await fetch(`${system.urls.edge}/v1/models/intent/predict`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ inputs, parameters }),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  const [output] = predictResponseSchema.parse(JSON.parse(text)).outputs;
  if (output === undefined) throw new Error("no output");
  return { output, response };
}

/** Its circuit may have opened: by what a test did to the region, or by a moment in which this machine was busy. */
async function waitForRegion(): Promise<void> {
  await expect
    .poll(async () => (await predict(ESCALATED_TEXT)).output.degraded, { timeout: 10_000 })
    .toBe(false);
}

const CONFIDENT_TEXT = "what is the exchange rate between dollars and euros";

/** An infer request in binary form for `intent`. */
async function infer(
  server: string | undefined,
  texts: readonly string[],
  more: Omit<InferRequest, "inputs"> = {},
  headers: Record<string, string> = {},
): Promise<Response> {
  const data = texts.map((text) => new TextEncoder().encode(text));
  const { body, jsonBytes } = encodeInferRequest(
    { ...more, inputs: { input: { datatype: "BYTES", shape: [texts.length], data } } },
    true,
  );
  const send = createSignedFetch(system.regionKey); // the edge does not mind
  return await send(`${server}/v2/models/intent/infer`, {
    method: "POST",
    headers: { [JSON_LENGTH_HEADER]: String(jsonBytes), ...headers },
    body,
  });
}

async function readInferResponse(response: Response): Promise<InferResponse> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  const length = response.headers.get(JSON_LENGTH_HEADER);
  expect(response.status, new TextDecoder().decode(bytes.subarray(0, 300))).toBe(200);
  return decodeInferResponse(bytes, length === null ? undefined : Number(length));
}

const PATIENT_US = 10_000_000;
const binary = { parameters: { binary_data_output: true, timeout: PATIENT_US } };

describe("the Open Inference Protocol at the edge of the running system", () => {
  it("takes texts through the cascade, and gives each row as its tier has given it", async () => {
    const [fromEdge, fromRegion] = [
      await readInferResponse(
        await infer(system.urls.edge, [CONFIDENT_TEXT], {
          parameters: { ...binary.parameters, tier: "edge-int8" },
        }),
      ),
      await readInferResponse(await infer(system.urls.region, [ESCALATED_TEXT], binary)),
    ];
    const { parameters, outputs } = await readInferResponse(
      await infer(system.urls.edge, [CONFIDENT_TEXT, ESCALATED_TEXT], binary),
    );
    expect(parameters).toEqual({ tier: "edge-int8, region-int8" });
    const [both, edgeRow, regionRow] = [outputs, fromEdge.outputs, fromRegion.outputs].map((one) =>
      expectFloat32Tensor("logits", one["logits"], 2),
    );
    expect(both?.shape).toEqual([2, edgeRow?.shape[1]]);
    const rows = [...(edgeRow?.data ?? []), ...(regionRow?.data ?? [])];
    expect([...(both?.data ?? [])]).toEqual(rows.map((value) => expect.closeTo(value, 3))); // alone, a text is padded less
  });

  it("passes on to the region what names its tier, bit by bit", async () => {
    const request = {
      id: "r-9",
      parameters: { tier: "region-int8", binary_data_output: true, timeout: PATIENT_US },
    };
    const [through, direct] = [
      await infer(system.urls.edge, [ESCALATED_TEXT], request, { "accept-encoding": "gzip" }),
      await infer(system.urls.region, [ESCALATED_TEXT], request),
    ];
    expect(through.headers.get("content-type")).toBe("application/octet-stream");
    expect(await readInferResponse(through)).toEqual(await readInferResponse(direct));
  });
});

describe("failures of the Open Inference Protocol at the edge", () => {
  it("is 503 in the protocol's form if only the region could answer and rejects, and in time if it hangs", async () => {
    const ask = (timeout?: number) =>
      infer(system.urls.edge, [ESCALATED_TEXT], {
        parameters: { tier: "region-int8", ...(timeout === undefined ? {} : { timeout }) },
      });
    proxies.region.behavior = "resets";
    const rejected = await ask();
    expect(rejected.status).toBe(503);
    expect(rejected.headers.get("retry-after")).toBe("1");
    expect(await rejected.json()).toEqual({ error: expect.stringMatching(/region/i) });
    proxies.region.behavior = "hangs";
    const startedAtMs = performance.now();
    const late = await ask(400_000);
    expect({ status: late.status, body: await late.json() }).toEqual({
      status: 503,
      body: { error: expect.stringContaining("400 ms") },
    });
    expect(performance.now() - startedAtMs).toBeLessThan(2_000);
    const degraded = await readInferResponse(
      await infer(system.urls.edge, [ESCALATED_TEXT], { parameters: { timeout: 400_000 } }),
    );
    expect(degraded.parameters).toEqual({ tier: "edge-int8", degraded: true });
    proxies.region.behavior = "forwards";
    await waitForRegion();
    expect((await ask(PATIENT_US)).status).toBe(200);
  });

  it("is ready for a model whose edge tier it has, also without the region", async () => {
    proxies.region.behavior = "resets";
    expect((await fetch(`${system.urls.edge}/v2/models/intent/ready`)).status).toBe(200);
    expect(await (await fetch(`${system.urls.edge}/v2/models/intent`)).json()).toMatchObject({
      name: "intent",
      versions: ["1"],
      inputs: [{ name: "input", datatype: "BYTES", shape: [-1] }],
      outputs: [{ name: "logits", datatype: "FP32" }],
    });
  });
});

describe("the running system", () => {
  it("answers a plain query at the edge", async () => {
    const { output } = await predict(CONFIDENT_TEXT);
    expect(output).toMatchObject({ label: "exchange_rate", tier: "edge-int8", degraded: false });
  });

  it("escalates an unsure text to the region, which reports it as out of scope", async () => {
    const { output, response } = await predict(ESCALATED_TEXT);
    expect(output).toMatchObject({ label: "oos", tier: "region-int8", degraded: false });
    expect(response.headers.get("x-edgetier-tier")).toBe("region-int8");
    expect(response.headers.get("server-timing")).toMatch(/region;dur=\d/);
  });

  it("answers many at once", async () => {
    const queries = Array.from({ length: 40 }, (_, index) =>
      index % 2 === 0 ? "what is my account balance" : `${ESCALATED_TEXT} ${index}`,
    );
    const labels = await Promise.all(
      queries.map(async (query) => (await predict(query)).output.label),
    );
    expect(labels.filter((label) => label === "balance")).toHaveLength(20);
  });

  it("tells at /metrics what it has answered, to everybody on this machine", async () => {
    const answers = async (tier: string) => {
      const { series } = metricsSnapshotSchema.parse(
        await (
          await fetch(`${system.urls.edge}/metrics`, { headers: { accept: "application/json" } })
        ).json(),
      );
      return series.reduce(
        (sum, one) =>
          one.kind === "counter" &&
          one.name === "edgetier_answers_total" &&
          one.labels["tier"] === tier &&
          one.labels["degraded_by"] === ""
            ? sum + one.value
            : sum,
        0,
      );
    };
    const before = [await answers("edge-int8"), await answers("region-int8")];
    const tiers = [
      await predict(CONFIDENT_TEXT),
      await predict(ESCALATED_TEXT),
      await predict(ESCALATED_TEXT),
    ].map(({ output }) => output.tier);
    expect(tiers).toEqual(["edge-int8", "region-int8", "region-int8"]);
    expect({
      edge: await answers("edge-int8"),
      region: await answers("region-int8"),
    }).toEqual({ edge: Number(before[0]) + 1, region: Number(before[1]) + 2 });
  });
});

describe("models of the running system", () => {
  it("serves what was published, by name, version and alias", async () => {
    const response = await fetch(`${system.urls.edge}/v1/models/intent@stable`);
    expect(await response.json()).toMatchObject({
      model: "intent",
      version: 1,
      versions: [1],
      aliases: { stable: 1 },
    });
    const list = await fetch(`${system.urls.edge}/v1/models`);
    expect(await list.json()).toEqual({
      models: ["intent", "vision"].map((model) => ({ model, aliases: { stable: 1 } })),
    });
  });

  it("says what a photograph shows, from its bytes or in JSON", async () => {
    const file = await readFile(join(MODELS_FOLDER, "vision/example/ship.jpg"));
    const ask = async (headers: Record<string, string>, body: BodyInit) => {
      const response = await fetch(`${system.urls.edge}/v1/models/vision/predict`, {
        method: "POST",
        headers,
        body,
      });
      return predictResponseSchema.parse(await response.json()).outputs[0];
    };
    const json = { "content-type": "application/json" };
    const inputs = { b64: file.toString("base64") };
    const whole = await ask({ "content-type": "image/jpeg" }, file);
    expect(whole).toMatchObject({ label: "ship", degraded: false });
    expect(await ask(json, JSON.stringify({ inputs }))).toEqual(whole);
    const atEdge = { inputs, parameters: { maxTier: "edge-int8", cache: "bypass" } };
    expect(await ask(json, JSON.stringify(atEdge))).toMatchObject({
      label: "ship",
      tier: "edge-int8",
    });
  });

  it.skipIf(!hasRedisServer)(
    "answers a repeat from L2, and without it when Redis is away or hangs (needs a redis-server on the PATH)",
    async () => {
      const query = `is this kept ${Date.now()}`;
      await predict(query, {});
      await expect
        .poll(async () => (await predict(query, {})).response.headers.get("x-edgetier-cache"))
        .toBe("l2");
      for (const mode of ["resets", "hangs"] as const) {
        proxies.redis.behavior = mode;
        const { response } = await predict(query, {});
        expect(response.headers.get("x-edgetier-cache")).toBe("miss");
      }
    },
  );
});

describe("failures of the running system", () => {
  it("marks the edge answer as degraded if the region rejects, and within the deadline if it hangs", async () => {
    proxies.region.behavior = "resets";
    expect((await predict(ESCALATED_TEXT)).output).toMatchObject({
      tier: "edge-int8",
      degraded: true,
      degradedBy: "region_unavailable",
    });
    proxies.region.behavior = "forwards";
    await waitForRegion();
    proxies.region.behavior = "hangs";
    const startedAtMs = performance.now();
    expect(
      (await predict(ESCALATED_TEXT, undefined, { "x-deadline-ms": "400" })).output,
    ).toMatchObject({
      tier: "edge-int8",
      degraded: true,
    });
    expect(performance.now() - startedAtMs).toBeGreaterThan(350);
    expect(performance.now() - startedAtMs).toBeLessThan(2000);
    proxies.region.behavior = "forwards";
    await waitForRegion();
  });

  it("says 503 while S3 is down at a cold start, and serves as soon as it is back", async () => {
    proxies.s3.behavior = "resets";
    const cold = await startLocalEdge({
      config: WRANGLER_CONFIG,
      port: await findFreePort(),
      stateFolder: join(folder, "cold"),
      variables: {
        ...toS3Variables(system.store),
        EDGETIER_S3_ENDPOINT: `${proxies.s3.url}/cdn-cgi/local/r2/s3`,
      },
      onLine: () => {},
    });
    try {
      const ask = () =>
        fetch(`${cold.url}/v1/models/intent/predict?input=what+is+my+account+balance`);
      const rejected = await ask();
      expect(rejected.status).toBe(503);
      expect(rejected.headers.get("retry-after")).toBe("1");
      expect(await rejected.json()).toMatchObject({
        code: "model_store_unavailable",
        retryable: true,
      });
      proxies.s3.behavior = "forwards";
      const answered = await ask();
      expect(answered.status).toBe(200);
      expect(await answered.json()).toMatchObject({ outputs: [{ label: "balance" }] });
    } finally {
      await cold.stop();
    }
  });
});

describe("an invalid configuration of the running system", () => {
  it("rejects a Worker without configuration, and names every variable", async () => {
    const bare = await startLocalEdge({
      config: WRANGLER_CONFIG,
      port: await findFreePort(),
      stateFolder: join(folder, "bare"),
      variables: { EDGETIER_MAX_INPUTS: "many" },
      onLine: () => {},
    });
    try {
      const response = await fetch(`${bare.url}/v1/models`);
      expect(response.status).toBe(500);
      expect(await response.json()).toMatchObject({ code: "invalid_configuration" });
    } finally {
      await bare.stop();
    }
  });
});
