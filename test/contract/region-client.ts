// Contract of RegionClient, against a region with version 1 of the model `mood` (test/region/region-fixture.ts). Its tiers
// are `heavy` and `slow`, whose runs take about 100 ms.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  decodeInferResponse,
  encodeInferRequest,
  JSON_LENGTH_HEADER,
} from "../../src/protocol/open-inference.ts";
import type {
  ForwardedRequest,
  RegionClient,
  RegionRequest,
} from "../../src/region/region-client.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

export interface RegionClientSetup {
  readonly client: RegionClient;
  /** Makes the region report that it is not ready. */
  drain(): Promise<void>;
  close(): Promise<void>;
}

export function regionClientContract(name: string, setUp: () => Promise<RegionClientSetup>): void {
  describe(`RegionClient ${name}`, () => {
    let setup: RegionClientSetup;
    beforeAll(async () => {
      setup = await setUp();
    });
    afterAll(() => setup.close());

    const request = (changes: Partial<RegionRequest> = {}): RegionRequest => ({
      model: "mood",
      version: 1,
      tier: "heavy",
      inputs: [bytes("good")],
      requestId: "request-1",
      timeoutMs: 10_000,
      ...changes,
    });
    const infer = (more?: Partial<RegionRequest>, signal?: AbortSignal) =>
      setup.client.infer(request(more), signal);

    it("returns the graph's raw outputs, in the order of the inputs", async () => {
      expect(
        await infer({ inputs: ["bad", "good", "greatly", "nothing known"].map(bytes) }),
      ).toEqual({
        logits: {
          datatype: "FP32",
          shape: [4, 2],
          data: Float32Array.of(0, 1, 1, 0, 2.5, -0.75, 0, 0),
        },
      });
    });

    it("keeps overlapping requests apart", async () => {
      const texts = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? "good" : "bad"));
      const results = await Promise.all(texts.map((text) => infer({ inputs: [bytes(text)] })));
      results.forEach((result, index) =>
        expect(result["logits"]?.data).toEqual(
          index % 2 === 0 ? Float32Array.of(1, 0) : Float32Array.of(0, 1),
        ),
      );
    });

    it.each([
      ["an unknown model", { model: "other" }, 400],
      ["an unknown version", { version: 9 }, 404],
      ["an unknown tier", { tier: "heaviest" }, 400],
      ["an empty text", { inputs: [bytes(" ")] }, 400],
      ["no inputs", { inputs: [] }, 400],
      ["a text that is too long", { inputs: [bytes("x".repeat(65))] }, 413],
    ])("reports a rejection by the region: %s", async (_description, changes, status) => {
      await expect(infer(changes)).rejects.toMatchObject({
        code: "region_refused",
        detail: expect.stringContaining(String(status)),
      });
    });

    it("reports a text that is not UTF-8", async () => {
      await expect(infer({ inputs: [Uint8Array.of(0xff)] })).rejects.toMatchObject({
        code: "region_refused",
        detail: expect.stringMatching(/400.*UTF-8/),
      });
    });

    it("reports a region that misses the deadline, and an aborted call", async () => {
      const slow = { tier: "slow", timeoutMs: 50 };
      // A started run may still meet its deadline. The third run must wait for another, even with two regions.
      const [, , third] = await Promise.allSettled([infer(slow), infer(slow), infer(slow)]);
      expect(third).toMatchObject({
        status: "rejected",
        reason: { code: "region_unavailable", retryable: true },
      });
      await expect(infer({}, AbortSignal.abort())).rejects.toMatchObject({
        code: "region_unavailable",
      });
    });

    describe("forward", () => {
      const message = encodeInferRequest(
        {
          id: "r-7",
          parameters: { binary_data_output: true },
          inputs: { input: { datatype: "BYTES", shape: [2], data: ["bad", "good"].map(bytes) } },
        },
        true,
      );
      const createForwarded = (changes: Partial<ForwardedRequest> = {}): ForwardedRequest => ({
        model: "mood",
        version: 1,
        body: message.body,
        headers: {
          "content-type": "application/octet-stream",
          [JSON_LENGTH_HEADER]: String(message.jsonBytes),
        },
        requestId: "request-1",
        timeoutMs: 10_000,
        ...changes,
      });
      const text = JSON.stringify({
        inputs: [{ name: "input", datatype: "BYTES", shape: [1], data: ["good"] }],
      });
      const asJson = { body: bytes(text), headers: { "content-type": "application/json" } };

      it("sends bytes, and returns the response with its format headers", async () => {
        const response = await setup.client.forward(createForwarded());
        expect(response.status).toBe(200);
        const jsonBytes = Number(response.headers.get(JSON_LENGTH_HEADER));
        const { model, version, id, outputs } = decodeInferResponse(
          new Uint8Array(await response.arrayBuffer()),
          jsonBytes,
        );
        expect({ model, version, id, outputs }).toEqual({
          model: "mood",
          version: "1",
          id: "r-7",
          outputs: {
            logits: { datatype: "FP32", shape: [2, 2], data: Float32Array.of(0, 1, 1, 0) },
          },
        });
        expect([...response.headers.keys()].toSorted()).toEqual([
          "content-type",
          JSON_LENGTH_HEADER,
        ]);
      });

      it("sends JSON", async () => {
        const response = await setup.client.forward(createForwarded(asJson));
        expect({
          status: response.status,
          mediaType: response.headers.get("content-type"),
        }).toEqual({ status: 200, mediaType: "application/json" });
        expect(await response.json()).toMatchObject({
          outputs: [{ name: "logits", data: [1, 0] }],
        });
      });

      it("returns rejections unchanged", async () => {
        for (const [changes, status] of [
          [{ model: "other" }, 400],
          [{ version: 9 }, 404],
          [{ body: bytes("{"), headers: {} }, 400],
        ] as const) {
          const response = await setup.client.forward(createForwarded(changes));
          expect({ status: response.status, body: await response.json() }).toEqual({
            status,
            body: { error: expect.stringMatching(/\S/) },
          });
        }
      });

      it("stops at its timeout, and on abort", async () => {
        const slow = JSON.stringify({
          ...(JSON.parse(text) as object),
          parameters: { tier: "slow" },
        });
        // Either the region or the client notices the timeout first: with a response, or with region_unavailable.
        const forwardSlow = () =>
          setup.client
            .forward(createForwarded({ ...asJson, body: bytes(slow), timeoutMs: 50 }))
            .then(
              ({ status }) => status,
              ({ status }) => status,
            );
        const [, , third] = await Promise.all([forwardSlow(), forwardSlow(), forwardSlow()]);
        expect(third).toBe(503);
        await expect(
          setup.client.forward(createForwarded(), AbortSignal.abort()),
        ).rejects.toMatchObject({
          code: "region_unavailable",
        });
      });
    });

    it("reports whether the region serves a version", async () => {
      await infer();
      expect(await setup.client.isModelReady("mood", 1)).toBe(true);
      expect({
        unknownVersion: await setup.client.isModelReady("mood", 9),
        unknownModel: await setup.client.isModelReady("other", 1),
        aborted: await setup.client.isModelReady("mood", 1, AbortSignal.abort()),
      }).toEqual({ unknownVersion: false, unknownModel: false, aborted: false });
    });

    it("reports whether the region is ready", async () => {
      expect(await setup.client.isReady()).toBe(true);
      expect(await setup.client.isReady(AbortSignal.abort())).toBe(false);
      await setup.drain();
      expect(await setup.client.isReady()).toBe(false);
      await expect(infer()).rejects.toMatchObject({ code: "region_unavailable", retryable: true });
    });
  });
}
