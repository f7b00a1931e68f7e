// What every RegionClient must do, against a region that serves the model `mood` in version 1
// (test/region/region-fixture.ts) with the tiers `slow`, some 100 ms a run, and `heavy`.
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
  /** Makes the region say that it is not ready. */
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

    const request = (more: Partial<RegionRequest> = {}): RegionRequest => ({
      model: "mood",
      version: 1,
      tier: "heavy",
      inputs: [bytes("good")],
      requestId: "request-1",
      timeoutMs: 10_000,
      ...more,
    });
    const infer = (more?: Partial<RegionRequest>, signal?: AbortSignal) =>
      setup.client.infer(request(more), signal);

    it("gives the graph's raw outputs, row by row in the order of the inputs", async () => {
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
      const answers = await Promise.all(texts.map((text) => infer({ inputs: [bytes(text)] })));
      answers.forEach((answer, index) =>
        expect(answer["logits"]?.data).toEqual(
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
    ])("reports what the region refuses: %s", async (_what, more, status) => {
      await expect(infer(more)).rejects.toMatchObject({
        code: "region_refused",
        detail: expect.stringContaining(String(status)),
      });
    });

    it("reports what is not UTF-8", async () => {
      await expect(infer({ inputs: [Uint8Array.of(0xff)] })).rejects.toMatchObject({
        code: "region_refused",
        detail: expect.stringMatching(/400.*UTF-8/),
      });
    });

    it("reports a region that does not answer in time, or whose answer is no longer wanted", async () => {
      const slow = { tier: "slow", timeoutMs: 50 };
      // A run that has begun may still be in time; of three, one has to wait for another even where there are two regions.
      const [, , third] = await Promise.allSettled([infer(slow), infer(slow), infer(slow)]);
      expect(third).toMatchObject({
        status: "rejected",
        reason: { code: "region_unavailable", retryable: true },
      });
      await expect(infer({}, AbortSignal.abort())).rejects.toMatchObject({
        code: "region_unavailable",
      });
    });

    describe("forwards a client's request", () => {
      const message = encodeInferRequest(
        {
          id: "r-7",
          parameters: { binary_data_output: true },
          inputs: { input: { datatype: "BYTES", shape: [2], data: ["bad", "good"].map(bytes) } },
        },
        true,
      );
      const forwarded = (more: Partial<ForwardedRequest> = {}): ForwardedRequest => ({
        model: "mood",
        version: 1,
        body: message.body,
        headers: {
          "content-type": "application/octet-stream",
          [JSON_LENGTH_HEADER]: String(message.jsonBytes),
        },
        requestId: "request-1",
        timeoutMs: 10_000,
        ...more,
      });
      const text = JSON.stringify({
        inputs: [{ name: "input", datatype: "BYTES", shape: [1], data: ["good"] }],
      });
      const asJson = { body: bytes(text), headers: { "content-type": "application/json" } };

      it("as bytes, and gives the answer with what tells its form", async () => {
        const response = await setup.client.forward(forwarded());
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

      it("as JSON", async () => {
        const response = await setup.client.forward(forwarded(asJson));
        expect([response.status, response.headers.get("content-type")]).toEqual([
          200,
          "application/json",
        ]);
        expect(await response.json()).toMatchObject({
          outputs: [{ name: "logits", data: [1, 0] }],
        });
      });

      it("and brings refusals back as they are", async () => {
        for (const [more, status] of [
          [{ model: "other" }, 400],
          [{ version: 9 }, 404],
          [{ body: bytes("{"), headers: {} }, 400],
        ] as const) {
          const response = await setup.client.forward(forwarded(more));
          expect([response.status, await response.json()]).toEqual([
            status,
            { error: expect.stringMatching(/\S/) },
          ]);
        }
      });

      it("within its time, and no longer than it is wanted", async () => {
        const slow = JSON.stringify({
          ...(JSON.parse(text) as object),
          parameters: { tier: "slow" },
        });
        // Whoever sees first that the time is up: the region says it in its answer, the client by region_unavailable.
        const statusOf = () =>
          setup.client.forward(forwarded({ ...asJson, body: bytes(slow), timeoutMs: 50 })).then(
            ({ status }) => status,
            ({ status }) => status,
          );
        const [, , third] = await Promise.all([statusOf(), statusOf(), statusOf()]);
        expect(third).toBe(503);
        await expect(setup.client.forward(forwarded(), AbortSignal.abort())).rejects.toMatchObject({
          code: "region_unavailable",
        });
      });
    });

    it("tells whether the region answers for a version", async () => {
      await infer();
      expect(await setup.client.isModelReady("mood", 1)).toBe(true);
      expect([
        await setup.client.isModelReady("mood", 9),
        await setup.client.isModelReady("other", 1),
        await setup.client.isModelReady("mood", 1, AbortSignal.abort()),
      ]).toEqual([false, false, false]);
    });

    it("tells whether the region is ready", async () => {
      expect(await setup.client.isReady()).toBe(true);
      expect(await setup.client.isReady(AbortSignal.abort())).toBe(false);
      await setup.drain();
      expect(await setup.client.isReady()).toBe(false);
      await expect(infer()).rejects.toMatchObject({ code: "region_unavailable", retryable: true });
    });
  });
}
