// `edgetier bench` as a process, against servers of the test's own: what they are asked, exit codes, reports, and being stopped.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingHttpHeaders } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { loadReportSchema } from "../../src/cli/load/report-schema.ts";
import { decodeInferRequest } from "../../src/protocol/open-inference.ts";
import { runEdgetier, startEdgetier } from "../support/edgetier-command.ts";
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

/** An edge of one model. @param delayMs of the answer to its n-th call; undefined: never */
async function startEdge(
  task: string,
  delayMs: (call: number) => number | undefined = () => 1,
): Promise<{ url: string; asked: ReceivedRequest[] }> {
  const asked: ReceivedRequest[] = [];
  server = await startTestHttpServer((request, response) => {
    void buffer(request).then((body) => {
      response.setHeader("content-type", "application/json");
      if (request.method === "GET") return void response.end(JSON.stringify({ task, ...METADATA }));
      const delay = delayMs(asked.push({ url: request.url ?? "", headers: request.headers, body }));
      response
        .setHeader("x-edgetier-tier", "edge")
        .setHeader("x-edgetier-cache", "bypass")
        .setHeader("server-timing", "total;dur=1");
      if (delay !== undefined)
        setTimeout(() => response.end('{"outputs":[{"degraded":false}]}'), delay);
    });
  });
  return { url: server.url, asked };
}

const SHORT_LOAD_ARGS = ["--rate", "300", "--duration", "1s", "--warm-up", "200ms"];

describe("edgetier bench", () => {
  it("prints what its schema says, and writes a page with plots", async () => {
    const { url, asked } = await startEdge("text-classification");
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
    expect([code, stderr]).toEqual([0, ""]);
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
    expect(asked.length).toBeGreaterThan(report.trials[0]?.answered ?? Number.NaN); // the warm-up, and one call before it
    expect(asked[0]).toMatchObject({
      url: "/v1/models/m%40canary/predict",
      headers: { authorization: "Bearer secret" },
    });
    expect(JSON.parse(String(asked[0]?.body))).toEqual({
      inputs: expect.any(String),
      parameters: { cache: "bypass" },
    });
    expect(new Set(asked.map(({ body }) => String(body))).size).toBeGreaterThan(100);

    const html = await readFile(page, "utf8");
    expect(html.match(/<svg /g)).toHaveLength(4);
    expect(html).not.toMatch(/https?:\/\/(?!127\.0\.0\.1)|<script|<link|NaN|undefined|Infinity/);
    for (const [tag] of html.matchAll(/<(section|svg|g|table|figure|main)\b/g))
      expect(html.split(tag).length, tag).toBe(html.split(`</${tag.slice(1)}>`).length);
    expect(html).not.toContain("secret");
  });

  it("exits with 1 where the objective is missed, and shows a stall as all who wait see it", async () => {
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
    expect([code, JSON.parse(stderr)]).toEqual([
      1,
      expect.objectContaining({ code: "slo_missed" }),
    ]);
    const [trial] = loadReportSchema.parse(JSON.parse(stdout)).trials;
    expect(trial).toMatchObject({ scheduled: 600, slo: { verdict: "missed", samples: 600 } });
    expect(trial?.slo?.over).toBeGreaterThan(120); // due in the first 0.7 s of the stall: 140
    expect(
      trial?.latency.percentiles.find(({ percentile }) => percentile === 99)?.ms,
    ).toBeGreaterThan(900);
  });

  it("exits with 0 where too few samples were taken, and with 1 if it is to be strict", async () => {
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
    const lenient = await runEdgetier(few);
    expect(lenient).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("too few"),
      stderr: expect.stringContaining("--duration 10s or more"),
    });
    expect(await runEdgetier([...few, "--strict"])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("not shown"),
    });
  });

  it("asks several rates one after the other, and shows them in a table", async () => {
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

  it("tells what was measured when it is stopped", async () => {
    const { url, asked } = await startEdge("text-classification", (call) =>
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
    await expect.poll(() => asked.length, { timeout: 15_000 }).toBeGreaterThan(150);
    running.signal("SIGINT");
    const { code, stdout } = await running.result;
    const report = loadReportSchema.parse(JSON.parse(stdout));
    expect([code, report.isInterrupted]).toEqual([0, true]);
    expect(report.trials[0]?.answered).toBe(99); // one was before the load
    expect(report.trials[0]?.unfinished).toBeGreaterThan(40);
  });
});

describe("the protocols of edgetier bench", () => {
  const answered = async (task: string, ...more: string[]) => {
    const { url, asked } = await startEdge(task);
    const ran = await runEdgetier(["bench", url, "--model", "m", ...SHORT_LOAD_ARGS, ...more]);
    expect(ran).toMatchObject({ code: 0 });
    return asked;
  };

  it("are /v1/embeddings for vectors", async () => {
    const inputs = join(folder, "texts.jsonl");
    await writeFile(inputs, '"one"\n{"text":"two","label":"x"}\n');
    const asked = await answered(
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
    expect(asked[0]).toMatchObject({
      url: "/v1/embeddings",
      headers: { "x-a": "1", "x-b": "2 3", "x-deadline-ms": "500" },
    });
    expect(new Set(asked.map(({ body }) => String(body)))).toEqual(
      new Set(['{"input":"one","model":"m"}', '{"input":"two","model":"m"}']),
    );
  });

  it("are /v2 for tensors, whose data goes as bytes", async () => {
    const [first] = await answered("tensor");
    const length = Number(first?.headers["inference-header-content-length"]);
    expect(first?.url).toBe("/v2/models/m/infer");
    expect(decodeInferRequest(new Uint8Array(first?.body ?? []), length)).toMatchObject({
      inputs: { x: { datatype: "FP32", shape: [1, 3] } },
    });
  });

  it("take an image as it is", async () => {
    const file = join(import.meta.dirname, "../../models/vision/example/ship.jpg");
    const [first] = await answered("image-classification", "--file", file, "--cache", "refresh");
    expect(first).toMatchObject({
      url: "/v1/models/m/predict?cache=refresh",
      headers: { "content-type": "image/jpeg" },
    });
    expect(first?.body.equals(await readFile(file))).toBe(true);
  });

  it("have images made up for them", async () => {
    const [first] = await answered("image-classification");
    expect([first?.headers["content-type"], first?.body.subarray(1, 4).toString()]).toEqual([
      "image/png",
      "PNG",
    ]);
  });
});

describe("edgetier bench refuses", () => {
  it.each([
    [["--rate", "0"], '--rate is "0"'],
    [["--rate", "10", "--rates", "1,2"], "--rates alone"],
    [["--find-rate"], "needs --slo"],
    [["--duration", "soon"], "--duration"],
    [["--duration", "0s"], "--duration is 0"],
    [["--rate", "100000", "--duration", "1h"], "fit into memory"],
    [["--percentile", "100", "--slo", "5"], "--percentile"],
    [["--header", "nothing"], "name: value"],
    [["--inputs", "a", "--file", "b"], "not both"],
    [["--seed", "x"], "--seed"],
  ])("%j with exit code 2", async (more, problem) => {
    expect(
      await runEdgetier(["bench", "http://127.0.0.1:1", "--model", "m", ...more]),
    ).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringContaining(problem),
    });
  });

  it("to put load on what is not there, and on what refuses it", async () => {
    const away = await runEdgetier(["bench", await getUnreachableUrl(), "--model", "m", "--json"]);
    expect([away.code, JSON.parse(away.stderr)]).toEqual([
      1,
      expect.objectContaining({ code: "edge_unreachable" }),
    ]);
    let calls = 0;
    server = await startTestHttpServer((_, response) => {
      calls++;
      response
        .writeHead(401, { "content-type": "application/problem+json" })
        .end('{"code":"unauthenticated","detail":"No key."}');
    });
    const refused = await runEdgetier([
      "bench",
      server.url,
      "--model",
      "m",
      "--protocol",
      "predict",
      "--json",
    ]);
    expect([refused.code, JSON.parse(refused.stderr), calls]).toEqual([
      1,
      expect.objectContaining({
        code: "unauthenticated",
        detail: expect.stringContaining("No key."),
      }),
      1,
    ]);
  });
});
