// Channel pruning of random networks: removing zero channels has no effect, and every pruned
// network runs.
import fc from "fast-check";
import { expect, it } from "vitest";
import { computeLayerCosts, sumLayerCosts } from "../../../src/toolchain/prune/graph-cost.ts";
import { ChannelPruner, pruneChannels } from "../../../src/toolchain/prune/prune-channels.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { cloneModel, measureDifference, measureModelShapes } from "./model-runs.ts";
import { createRandomNet, type NetChoices, NET_STEPS } from "./random-net.ts";

const pick = fc.nat({ max: 1000 });
const netArbitrary: fc.Arbitrary<NetChoices> = fc.record({
  steps: fc.array(fc.tuple(pick, pick, pick), { minLength: 1, maxLength: 8 }),
  flattening: pick,
  outputs: fc.array(pick, { maxLength: 1 }),
});

it("removes channels of zeros without a change of the outputs (property)", async () => {
  let [units, removed] = [0, 0];
  await fc.assert(
    fc.asyncProperty(netArbitrary, async (choices) => {
      const original = createRandomNet(choices);
      const pruned = cloneModel(original);
      const pruner = new ChannelPruner(pruned, await measureModelShapes(original), {
        multiple: 1,
      });
      const zeros = pruner.selectZeroUnits();
      const expected = pruner.computeCostWithout(zeros);
      const { groups, shapes } = pruner.removeUnits(zeros);
      units += groups.reduce((sum, group) => sum + group.channels, 0);
      removed += groups.reduce((sum, group) => sum + group.removed, 0);
      expect(await measureDifference(original, pruned)).toBeLessThanOrEqual(1e-5);
      expect(sumLayerCosts(computeLayerCosts(pruned, shapes))).toEqual(expected);
      expect(shapes).toEqual(await measureModelShapes(pruned));
    }),
    { numRuns: propertyRuns(100), seed: 1 },
  );
  expect(removed / units).toBeGreaterThan(0.2); // A third of all channels, without those that are coupled with others.
}, 120_000);

it("keeps the network runnable with outputs of the same shapes, for any ratio and multiple (property)", async () => {
  await fc.assert(
    fc.asyncProperty(
      netArbitrary,
      fc.double({ min: 0, max: 0.95, noNaN: true }),
      fc.constantFrom(1, 2, 4, 8),
      fc.constantFrom("group" as const, "model" as const),
      async (choices, ratio, multiple, scope) => {
        const original = createRandomNet(choices);
        const pruned = cloneModel(original);
        const { groups } = pruneChannels(pruned, await measureModelShapes(original), {
          ratio,
          multiple,
          scope,
          importance: "l2",
        });
        for (const { channels, removed } of groups) {
          expect(removed === 0 || (channels - removed) % multiple === 0).toBe(true);
          expect(channels - removed).toBeGreaterThan(0);
        }
        expect(await measureDifference(original, pruned)).toBeLessThan(Number.POSITIVE_INFINITY);
      },
    ),
    { numRuns: propertyRuns(60), seed: 2 },
  );
}, 120_000);

const stepCases = Object.keys(NET_STEPS).map((name, step) => ({
  name,
  step,
  unprunableLayers: name.startsWith("softmax") ? ["make_v3", "make_logits"] : ["make_logits"],
}));
it.each(stepCases)(
  "removes channels of zeros through: $name",
  async ({ step, unprunableLayers }) => {
    const original = createRandomNet({
      steps: [
        [step, 0, 1],
        [0, 0, 0],
      ],
      flattening: 0,
      outputs: [],
    });
    const pruned = cloneModel(original);
    const pruner = new ChannelPruner(pruned, await measureModelShapes(original), { multiple: 1 });
    const { unprunable } = pruner.removeUnits(pruner.selectZeroUnits());
    expect(unprunable.map(({ layer }) => layer)).toEqual(unprunableLayers);
    expect(await measureDifference(original, pruned)).toBeLessThanOrEqual(1e-5);
  },
);
