// Suite: the client gets the same answers from the deployed Worker in Node and in a browser page of another origin.
import { join } from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import { createClient, EdgeTierError } from "../../../src/client/index.ts";
import { toBase64 } from "../../../src/core/base64.ts";
import { runClientScenario } from "../../client/client-scenario.ts";
import { openTestPage } from "../../support/browser-page.ts";
import { browserSkipReason } from "../../support/chromium.ts";
import { unit } from "../../support/embedding-model.ts";
import { type FaultProxy, startFaultProxy } from "../../support/fault-proxy.ts";
import { sampleImage } from "../../support/sample-images.ts";
import { system } from "./shared-system.ts";

const RED = toBase64(sampleImage("jpeg, red").file);

let proxy: FaultProxy;
beforeAll(async () => {
  proxy = await startFaultProxy(system.urls.edge);
});
afterAll(async () => {
  await proxy?.close();
});

const closeToVector = (vector: readonly number[]) =>
  vector.map((one) => expect.closeTo(one, 6) as number);
const answers = {
  first: "yes",
  repeated: { label: "yes", source: "client" },
  several: [
    { label: "yes", tier: "edge" },
    { label: expect.any(String), tier: "region" },
  ],
  images: ["red", "red"],
  inference: [
    { name: "y", datatype: "INT32", shape: [1, 2], data: [1 + 6 - 15 + 10, -2 + 8 + 18 + 20] },
  ],
  strings: [["one", "zwölf"]],
  vectors: [closeToVector(unit(4, 4, 0, 0)), closeToVector(unit(1, -2, 4, 0))],
  tokens: 6,
  models: expect.arrayContaining(["toy", "colours", "matmul"]),
  regions: 1,
  unknownModel: { code: "model_not_found", status: 404, hasId: true },
  aborted: "user left",
  unreachable: { code: "network", status: 0, hasId: false },
};

it("works in Node", async () => {
  expect(await runClientScenario(system.urls.edge, RED)).toEqual(answers);
});

it("works in a browser's page", async ({ skip }) => {
  skip(browserSkipReason !== undefined, browserSkipReason);
  const { outputFiles } = await build({
    entryPoints: [join(PROJECT_ROOT, "test/client/client-scenario.ts")],
    bundle: true,
    format: "esm",
    platform: "browser",
    write: false,
  });
  const opened = await openTestPage({
    "/client-scenario.js": {
      type: "text/javascript",
      bytes: outputFiles[0]?.contents ?? new Uint8Array(),
    },
  });
  try {
    expect(
      await opened.call("/client-scenario.js", "runClientScenario", system.urls.edge, RED),
    ).toEqual(answers);
  } finally {
    await opened.close();
  }
});

describe("through a network that fails", () => {
  const client = (options: object = {}) =>
    createClient({ url: proxy.url, random: () => 0, ...options });
  const catchError = (call: Promise<unknown>) =>
    call.then(
      () => undefined,
      (error: unknown) => error,
    );

  it.each([
    ["resets connections", { kind: "resets", matching: /predict/ }, "network"],
    ["cuts answers off", { kind: "truncates" }, "network"],
    ["is overloaded", { kind: "status", status: 503 }, "http_503"],
  ] as const)("that %s, a call is retried, and then fails", async (_, fault, code) => {
    proxy.fault = fault;
    proxy.clearHistory();
    const error = await catchError(client({ retries: 3 }).predict("toy", "yes"));
    expect(error).toBeInstanceOf(EdgeTierError);
    expect(error).toMatchObject({ code });
    expect(proxy.receivedRequests).toHaveLength(4);
    proxy.fault = { kind: "none" };
    expect((await client().predict("toy", "yes")).outputs[0].label).toBe("yes");
  });

  it("that hangs, a call ends when its time is up, and the server sees its client leave", async () => {
    proxy.fault = { kind: "hangs" };
    proxy.clearHistory();
    expect(await catchError(client().predict("toy", "yes", { deadlineMs: 100 }))).toMatchObject({
      code: "timeout",
    });
    await expect.poll(() => proxy.disconnectCount).toBe(1);
    expect(proxy.receivedRequests).toHaveLength(1);
    proxy.fault = { kind: "none" };
  });

  it("that fails once, the second try has the answer", async () => {
    let calls = 0;
    const failsOnce: typeof fetch = async (input, init) => {
      proxy.fault = calls++ === 0 ? { kind: "resets", matching: /./ } : { kind: "none" };
      return await fetch(input, init);
    };
    expect((await client({ fetch: failsOnce }).predict("toy", "yes")).outputs[0].label).toBe("yes");
    expect(calls).toBe(2);
  });
});
