// Intent model of EdgeTier in a region: texts in, the expected intents out.
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { createInProcessRegionClient } from "../../src/region/drivers/in-process.ts";
import type { ArtifactRef } from "../../src/registry/manifest.ts";
import { parseModelRef } from "../../src/registry/model-ref.ts";
import { publishModel } from "../../src/registry/publish.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { createRegionFixture } from "./region-fixture.ts";

it("models/intent recognizes plain requests", async () => {
  const source = await readProject(fileURLToPath(new URL("../../models/intent", import.meta.url)));
  const region = createRegionFixture();
  const { version } = await publishModel(region.store, source);
  const { manifest, tiers } = await region.repository.getModel(parseModelRef(`intent@${version}`));
  const labels: string[] = JSON.parse(
    new TextDecoder().decode(await region.store.readArtifact(manifest.labels as ArtifactRef)),
  );
  const tier = tiers[0].manifest.id;

  const labelByText = {
    "what is the balance of my checking account": "balance",
    "how do you say good morning in spanish": "translate",
    "set an alarm for six thirty tomorrow": "alarm",
    "will it rain in london this weekend": "weather",
    "flip a coin for me please": "flip_coin",
  };
  const inputs = Object.keys(labelByText).map((text) => new TextEncoder().encode(text));
  const client = createInProcessRegionClient(region.app.fetch);
  const { logits } = await client.infer({
    model: "intent",
    version,
    tier,
    inputs,
    requestId: "r",
    timeoutMs: 10_000,
  });
  expect(logits?.shape).toEqual([inputs.length, labels.length]);
  const scores = logits?.datatype === "FP32" ? logits.data : new Float32Array();
  const best = inputs.map((_, row) => {
    const rowScores = scores.subarray(row * labels.length, (row + 1) * labels.length);
    return labels[rowScores.indexOf(Math.max(...rowScores))];
  });
  expect(best).toEqual(Object.values(labelByText));
});
