// Tests `edgetier bench` against local servers: its requests, exit codes, reports and interruption.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { loadReportSchema } from "../../src/cli/load/report-schema.ts";
import { decodeInferRequest } from "../../src/protocol/open-inference.ts";
import { runEdgetier, runFailingEdgetier, startEdgetier } from "../support/edgetier-command.ts";
import {
  getUnreachableUrl,
  startTestHttpServer,
  type TestHttpServer,
} from "../support/test-http-server.ts";

interface ReceivedRequest {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

let folder: string;
let server: TestHttpServer | undefined;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-bench-"));
});
afterEach(async () => await server?.stop());
afterAll(async () => await rm(folder, { recursive: true, force: true }));

const METADATA = { inputs: [{ name: "x", datatype: "FP32", shape: [-1, 3] }] };

/** Starts an edge with one model. @param delayMs delay of the reply to the n-th call; undefined: no reply */
async function startEdge(
  task: string,
  delayMs: (call: number) => number | undefined = () => 1,
): Promise<{ url: string; requests: ReceivedRequest[] }> {
  const requests: ReceivedRequest[] = [];
  server = await startTestHttpServer((request, response) => {
    void buffer(request).then((body) => {
      response.setHeader("content-type", "application/json");
      if (request.method === "GET") return void response.end(JSON.stringify({ task, ...METADATA }));
      const delay = delayMs(
        requests.push({ url: request.url ?? "", headers: request.headers, body }),
      );
      response
        .setHeader("x-edgetier-tier", "edge")
        .setHeader("x-edgetier-cache", "bypass")
        .setHeader("server-timing", "total;dur=1");
      if (delay !== undefined)
        setTimeout(() => response.end('{"outputs":[{"degraded":false}]}'), delay);
    });
  });
  return { url: server.url, requests };
}

const SHORT_LOAD_ARGS = ["--rate", "300", "--duration", "1s", "--warm-up", "200ms"];

describe("edgetier bench", () => {
  it("prints a report of its schema, and writes a page with plots", async () => {
    const { url, requests } = await startEdge("text-classification");
    const page = join(folder, "report.html");
    const { code, stdout, stderr } = await runEdgetier(
      [
        "bench",
        url,
        "--model",
        "m@canary",
        ...SHORT_LOAD_ARGS,
        "--cache",
        "bypass",
        "--html",
        page,
        "--json",
      ],
      { EDGETIER_API_KEY: "secret" },
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const report = loadReportSchema.parse(JSON.parse(stdout));
    expect(report).toMatchObject({
      url,
      model: "m@canary",
      protocol: "predict",
      inputs: { count: 5_000, source: "made up" },
      isInterrupted: false,
    });
    expect(report.trials[0]).toMatchObject({
      failed: 0,
      tiers: [{ name: "edge", share: 1 }],
      caches: [{ name: "bypass", share: 1 }],
      phases: [{ phase: "total", p50Ms: 1 }],
    });
    expect(requests.length).toBeGreaterThan(report.trials[0]?.answered ?? Number.NaN); // includes the warm-up and one call before it
    expect(requests[0]).toMatchObject({
      url: "/v1/models/m%40canary/predict",
      headers: { authorization: "Bearer secret" },
    });
    expect(JSON.parse(String(requests[0]?.body))).toEqual({
      inputs: expect.any(String),
      parameters: { cache: "bypass" },
    });
    expect(new Set(requests.map(({ body }) => String(body))).size).toBeGreaterThan(100);

    const html = await readFile(page, "utf8");
    expect(html.match(/<svg /g)).toHaveLength(4);
    expect(html).not.toMatch(/https?:\/\/(?!127\.0\.0\.1)|<script|<link|NaN|undefined|Infinity/);
    for (const [tag] of html.matchAll(/<(section|svg|g|table|figure|main)\b/g))
      expect(html.split(tag).length, tag).toBe(html.split(`</${tag.slice(1)}>`).length);
    expect(html).not.toContain("secret");
  });
});

describe("objectives of edgetier bench", () => {
  it("exits with 1 if the objective is missed, and counts every request that a stall delays", async () => {
    const stalled = { untilMs: 0 };
    const { url } = await startEdge("text-classification", (call) => {
      if (call === 160) stalled.untilMs = performance.now() + 1_000;
      return Math.max(1, stalled.untilMs - performance.now());
    });
    const { code, stdout, stderr } = await runEdgetier([
      "bench",
      url,
      "--model",
      "m",
      "--rate",
      "200",
      "--duration",
      "3s",
      "--warm-up",
      "200ms",
      "--slo",
      "300",
      "--arrivals",
      "constant",
      "--json",
    ]);
    expect({ exitCode: code, ...JSON.parse(stderr) }).toMatchObject({
      exitCode: 1,
      code: "slo_missed",
    });
    const [trial] = loadReportSchema.parse(JSON.parse(stdout)).trials;
    expect(trial).toMatchObject({ scheduled: 600, slo: { verdict: "missed", samples: 600 } });
    expect(trial?.slo?.over).toBeGreaterThan(120); // due in the first 0.7 s of the stall: 140
    expect(
      trial?.latency.percentiles.find(({ percentile }) => percentile === 99)?.ms,
    ).toBeGreaterThan(900);
  });
});

describe("edgetier bench with too few samples", () => {
  it("exits with 0 after too few samples, and with 1 with --strict", async () => {
    const { url } = await startEdge("text-classification");
    const few = [
      "bench",
      url,
      "--model",
      "m",
      "--rate",
      "50",
      "--duration",
      "1s",
      "--warm-up",
      "0s",
      "--slo",
      "5000",
    ];
    const lenient = await runEdgetier([...few, "--json"]);
    expect(lenient.code).toBe(0);
    expect(loadReportSchema.parse(JSON.parse(lenient.stdout)).trials).toMatchObject([
      { slo: { verdict: "not shown", samples: expect.any(Number) } },
    ]);
    expect(await runFailingEdgetier([...few, "--strict"])).toMatchObject({
      exitCode: 1,
      code: "slo_not_shown",
    });
  });
});

describe("trials of edgetier bench", () => {
  it("run at several rates serially, and are printed as a table", async () => {
    const { url } = await startEdge("text-classification");
    const { code, stdout } = await runEdgetier([
      "bench",
      url,
      "--model",
      "m",
      "--rates",
      "100,300",
      "--duration",
      "500ms",
      "--warm-up",
      "100ms",
      "--arrivals",
      "constant",
    ]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/OFFERED\/S .*\n100 .* 50 .*\n300 .* 150 /);
  });

  it("are reported as far as they went when the command is interrupted", async () => {
    const { url, requests } = await startEdge("text-classification", (call) =>
      call > 100 ? undefined : 1,
    );
    const running = startEdgetier([
      "bench",
      url,
      "--model",
      "m",
      "--rate",
      "200",
      "--duration",
      "60s",
      "--warm-up",
      "0s",
      "--json",
    ]);
    await expect.poll(() => requests.length, { timeout: 15_000 }).toBeGreaterThan(150);
    running.signal("SIGINT");
    const { code, stdout } = await running.result;
    const report = loadReportSchema.parse(JSON.parse(stdout));
    expect({ code, isInterrupted: report.isInterrupted }).toEqual({ code: 0, isInterrupted: true });
    expect(report.trials[0]?.answered).toBe(99); // one call precedes the load
    expect(report.trials[0]?.unfinished).toBeGreaterThan(40);
  });
});

describe("the protocols of edgetier bench", () => {
  const sendLoad = async (task: string, ...more: string[]) => {
    const { url, requests } = await startEdge(task);
    const ran = await runEdgetier(["bench", url, "--model", "m", ...SHORT_LOAD_ARGS, ...more]);
    expect(ran).toMatchObject({ code: 0 });
    return requests;
  };

  it("use /v1/embeddings for vectors", async () => {
    const inputs = join(folder, "texts.jsonl");
    await writeFile(inputs, '"one"\n{"text":"two","label":"x"}\n');
    const requests = await sendLoad(
      "embedding",
      "--inputs",
      inputs,
      "--header",
      "x-a: 1",
      "--header",
      "X-B: 2 3",
      "--deadline",
      "500",
    );
    expect(requests[0]).toMatchObject({
      url: "/v1/embeddings",
      headers: { "x-a": "1", "x-b": "2 3", "x-deadline-ms": "500" },
    });
    expect(new Set(requests.map(({ body }) => String(body)))).toEqual(
      new Set(['{"input":"one","model":"m"}', '{"input":"two","model":"m"}']),
    );
  });

  it("use /v2 with binary data for tensors", async () => {
    const [first] = await sendLoad("tensor");
    const length = Number(first?.headers["inference-header-content-length"]);
    expect(first?.url).toBe("/v2/models/m/infer");
    expect(decodeInferRequest(new Uint8Array(first?.body ?? []), length)).toMatchObject({
      inputs: { x: { datatype: "FP32", shape: [1, 3] } },
    });
  });

  it("send an image file unchanged", async () => {
    const file = join(import.meta.dirname, "../../models/vision/example/ship.jpg");
    const [first] = await sendLoad("image-classification", "--file", file, "--cache", "refresh");
    expect(first).toMatchObject({
      url: "/v1/models/m/predict?cache=refresh",
      headers: { "content-type": "image/jpeg" },
    });
    expect(first?.body.equals(await readFile(file))).toBe(true);
  });

  it("generate images", async () => {
    const [first] = await sendLoad("image-classification");
    expect(first?.headers["content-type"]).toBe("image/png");
    expect(first?.body.subarray(1, 4).toString()).toBe("PNG");
  });
});

describe("errors of edgetier bench", () => {
  it.each([
    [["--rate", "0"], "--rate"],
    [["--rate", "10", "--rates", "1,2"], "--rates"],
    [["--find-rate"], "--slo"],
    [["--duration", "soon"], "--duration"],
    [["--duration", "0s"], "--duration"],
    [["--rate", "100000", "--duration", "1h"], "calls"],
    [["--percentile", "100", "--slo", "5"], "--percentile"],
    [["--header", "nothing"], "--header"],
    [["--inputs", "a", "--file", "b"], "--file"],
    [["--seed", "x"], "--seed"],
  ])("reject %j with exit code 2 and name %s", async (more, option) => {
    expect(
      await runFailingEdgetier(["bench", "http://127.0.0.1:1", "--model", "m", ...more]),
    ).toMatchObject({
      exitCode: 2,
      stdout: "",
      code: "usage",
      detail: expect.stringContaining(option),
    });
  });

  it("report an unreachable edge", async () => {
    expect(
      await runFailingEdgetier(["bench", await getUnreachableUrl(), "--model", "m"]),
    ).toMatchObject({ exitCode: 1, code: "edge_unreachable" });
  });

  it("report that the edge rejects the first call, and no other call follows", async () => {
    let calls = 0;
    server = await startTestHttpServer((_, response) => {
      calls++;
      response
        .writeHead(401, { "content-type": "application/problem+json" })
        .end('{"code":"unauthenticated","detail":"No key."}');
    });
    expect(
      await runFailingEdgetier(["bench", server.url, "--model", "m", "--protocol", "predict"]),
    ).toMatchObject({
      exitCode: 1,
      code: "unauthenticated",
      detail: expect.stringContaining("No key."),
    });
    expect(calls).toBe(1);
  });
});
