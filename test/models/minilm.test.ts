// The sentence encoder against its original, on the weights that models/minilm/recipe makes, or those in EDGETIER_TEST_MINILM.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENGINE_FOLDER, MODELS_FOLDER } from "../../src/cli/local/paths.ts";
import { fromBase64 } from "../../src/core/base64.ts";
import { embeddingTask } from "../../src/tasks/embedding.ts";
import type { Preprocessor } from "../../src/tasks/task.ts";
import { normalizeVector, poolVectors } from "../../src/tasks/text/embedding-vectors.ts";
import { prepareEngine } from "../../src/toolchain/engine/prepare-engine.ts";
import { createWorkerdRunner } from "../../src/toolchain/evaluate/harness/workerd-runner.ts";
import { createNodeRunner } from "../../src/toolchain/evaluate/node-runner.ts";
import { requireProjectFile } from "../../src/toolchain/evaluate/project-tier.ts";
import type { RunnerSession, Runner } from "../../src/toolchain/evaluate/runner.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { cosine } from "../bench/embeddings/vectors.ts";
import originals from "../fixtures/minilm.json" with { type: "json" };

const folder = process.env["EDGETIER_TEST_MINILM"] ?? join(MODELS_FOLDER, "minilm");
const hasWeights = existsSync(join(folder, "artifacts/model.onnx"));
/** Minimum cosine between INT8 and FP32 vectors. */
const MIN_COSINE = 0.97;

describe.skipIf(!hasWeights)(
  "minilm (needs its weights: models/minilm/recipe/README.md makes them)",
  () => {
    let preprocessor: Preprocessor;
    let runners: readonly Runner[];
    let sessions: readonly RunnerSession[];
    beforeAll(async () => {
      const source = await readProject(folder);
      const { project } = source;
      if (project.task !== "embedding" || project.tiers[0] === undefined)
        throw new TypeError("it gives no embeddings");
      const [tier] = project.tiers;
      preprocessor = embeddingTask.createPreprocessor({
        ...tier.preprocessor,
        artifact: requireProjectFile(source, tier.preprocessor.artifact),
      });
      const { sha256: engineSha256 } = await prepareEngine({ outDir: ENGINE_FOLDER });
      runners = [
        createNodeRunner(),
        await createWorkerdRunner({ engineFolder: ENGINE_FOLDER, engineSha256 }),
      ];
      sessions = await Promise.all(
        runners.map((runner) => runner.open(requireProjectFile(source, tier.graph))),
      );
    }, 120_000);
    afterAll(async () => {
      for (const runner of runners ?? []) await runner.close();
    });

    it.each(originals.map(({ text, ...expected }) => [text.slice(0, 40), text, expected] as const))(
      "%s",
      { timeout: 60_000 },
      async (_shown, text, { tokens, vector }) => {
        const inputs = preprocessor.encode([{ kind: "text", text }]);
        expect(inputs["input_ids"]?.shape).toEqual([1, tokens]);
        const original = new Float32Array((fromBase64(vector) ?? new Uint8Array()).buffer);
        for (const session of sessions) {
          const [own = new Float32Array()] = poolVectors(
            await session.run(inputs),
            { output: "embedding", pooling: "graph" },
            [tokens],
            original.length,
          ).map(normalizeVector);
          expect(cosine(own, original)).toBeGreaterThan(MIN_COSINE);
        }
      },
    );
  },
);
