// What every RegionClient must do, against a region that serves the model `mood` in version 1
// (test/region/world.ts) with the tiers `slow`, some 100 ms a run, and `heavy`.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RegionClient, RegionRequest } from "../../src/region/region-client.ts";

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
    const infer = (more?: Partial<RegionRequest>, signal?: AbortSignal) => setup.client.infer(request(more), signal);

    it("gives the graph's raw outputs, row by row in the order of the inputs", async () => {
      expect(await infer({ inputs: ["bad", "good", "greatly", "nothing known"].map(bytes) })).toEqual({
        logits: { datatype: "FP32", shape: [4, 2], data: Float32Array.of(0, 1, 1, 0, 2.5, -0.75, 0, 0) },
      });
    });

    it("keeps overlapping requests apart", async () => {
      const texts = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? "good" : "bad"));
      const answers = await Promise.all(texts.map((text) => infer({ inputs: [bytes(text)] })));
      answers.forEach((answer, index) => expect(answer["logits"]?.data).toEqual(index % 2 === 0 ? Float32Array.of(1, 0) : Float32Array.of(0, 1)));
    });

    it.each([
      ["an unknown model", { model: "other" }, 400],
      ["an unknown version", { version: 9 }, 404],
      ["an unknown tier", { tier: "heaviest" }, 400],
      ["an empty text", { inputs: [bytes(" ")] }, 400],
      ["no inputs", { inputs: [] }, 400],
      ["a text that is too long", { inputs: [bytes("x".repeat(65))] }, 413],
    ])("reports what the region refuses: %s", async (_what, more, status) => {
      await expect(infer(more)).rejects.toMatchObject({ code: "region_refused", detail: expect.stringContaining(String(status)) });
    });

    it("reports what is not UTF-8", async () => {
      await expect(infer({ inputs: [Uint8Array.of(0xff)] })).rejects.toMatchObject({ code: "region_refused", detail: expect.stringMatching(/400.*UTF-8/) });
    });

    it("reports a region that does not answer in time, or whose answer is no longer wanted", async () => {
      const slow = { tier: "slow", timeoutMs: 50 };
      const [, second] = await Promise.allSettled([infer(slow), infer(slow)]);
      expect(second).toMatchObject({ status: "rejected", reason: { code: "region_unavailable", retryable: true } });
      await expect(infer({}, AbortSignal.abort())).rejects.toMatchObject({ code: "region_unavailable" });
    });

    it("tells whether the region is ready", async () => {
      expect(await setup.client.ready()).toBe(true);
      expect(await setup.client.ready(AbortSignal.abort())).toBe(false);
      await setup.drain();
      expect(await setup.client.ready()).toBe(false);
      await expect(infer()).rejects.toMatchObject({ code: "region_unavailable", retryable: true });
    });
  });
}
