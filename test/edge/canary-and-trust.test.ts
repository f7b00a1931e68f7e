// Canaries and trust in workerd: versions without a trusted signature, and the share of a canary.
import { beforeEach, describe, expect, it } from "vitest";
import { predictResponseSchema } from "../../src/protocol/predict.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { storeLayout } from "../../src/registry/store-layout.ts";
import toy from "../fixtures/toy.onnx";
import { ALIAS_TTL_MS, type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";
import { publishToyModel } from "../support/toy-model.ts";
import { fullDeployment } from "./full-engine.ts";
import { readProblem } from "./read-problem.ts";

let edge: EdgeUnderTest;
beforeEach(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment, {
    signingKey: await createTestSigningKey(),
  });
});

async function requestServedVersion(
  body: object,
  headers: Record<string, string> = {},
): Promise<number> {
  const response = await edge.predict({ inputs: "yes", ...body }, headers);
  expect(response.status, await response.clone().text()).toBe(200);
  return predictResponseSchema.parse(await response.json()).version;
}

const expireAliasCache = () => edge.clock.advance(2 * ALIAS_TTL_MS);

describe("an edge with trusted keys", () => {
  it("serves a version signed by one of them", async () => {
    expect(await requestServedVersion({})).toBe(1);
  });

  it("rejects an unsigned version by number, and keeps serving the old one by alias", async () => {
    await requestServedVersion({});
    await publishToyModel(createModelStore(edge.objectStore), new Uint8Array(toy), { version: 2 });
    expireAliasCache();
    expect(await requestServedVersion({ parameters: { cache: "bypass" } })).toBe(1);
    expect(edge.logRecords).toContainEqual(
      expect.objectContaining({
        event: "version_refused",
        version: 2,
        servedVersion: 1,
        error: expect.objectContaining({ code: "manifest_untrusted" }),
      }),
    );
    const response = await edge.app.request("/v1/models/toy@2/predict?input=yes");
    expect(await readProblem(response)).toMatchObject({
      status: 503,
      code: "manifest_untrusted",
      detail: expect.stringContaining("toy@2"),
    });
  });

  it("rejects a signed version with a changed byte before parsing it", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { version: 2 });
    const key = storeLayout.manifest("toy", 2);
    const file = new Uint8Array(
      await new Response((await edge.objectStore.get(key))?.body).arrayBuffer(),
    );
    file[100] = (file[100] ?? 0) ^ 1; // within the payload
    await edge.objectStore.put(key, file, { kind: "any" }, "application/json");
    const response = await edge.app.request("/v1/models/toy@2/predict?input=yes");
    expect(await readProblem(response)).toMatchObject({
      status: 503,
      code: "manifest_untrusted",
    });
  });
});

describe("a canary", () => {
  const readServedVersion = async (requestId: string) =>
    await requestServedVersion({}, { "x-request-id": requestId });
  const infer = (requestId: string) =>
    edge.app.request("/v2/models/toy/infer", {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": requestId },
      body: JSON.stringify({
        inputs: [{ name: "input", shape: [1], datatype: "BYTES", data: ["yes"] }],
      }),
    });

  it("serves its share of requests over both APIs, the same for a repeated request", async () => {
    await publishToyModel(edge.store, new Uint8Array(toy), { version: 2 });
    const read = await edge.store.readAliases("toy");
    await edge.store.writeAliases(
      "toy",
      { stable: 1, canary: { version: 2, weight: 0.5 } },
      read?.etag,
    );
    const ids = Array.from({ length: 40 }, (_, index) => `r-${index}`);
    const versions: number[] = [];
    for (const id of ids) versions.push(await readServedVersion(id));
    expect(new Set(versions)).toEqual(new Set([1, 2]));
    for (const [index, id] of ids.entries()) {
      expect(await readServedVersion(id)).toBe(versions[index]); // from the cache, which has the results of both versions
      expect(await (await infer(id)).json()).toMatchObject({ model_version: `${versions[index]}` });
    }
  });
});
