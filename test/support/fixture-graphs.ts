// Fixture graphs: the graphs of test/fixtures in the form of a deployment.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TensorSpec } from "../../src/core/tensor.ts";
import type { DeployedGraph } from "../../src/toolchain/engine/build-deployment.ts";

const INPUTS = {
  toy: [{ name: "ids", datatype: "INT32", shape: [-1, -1] }],
  "int8-matmul": [{ name: "x", datatype: "UINT8", shape: [-1, 3] }],
  "random-normal": [{ name: "x", datatype: "FP32", shape: [-1] }],
} as const satisfies Readonly<Record<string, readonly TensorSpec[]>>;

/** Creates the first tier, `edge`, of a model that also has a region tier. */
export async function readFixtureGraph(model: keyof typeof INPUTS): Promise<DeployedGraph> {
  const bytes = await readFile(join(import.meta.dirname, `../fixtures/${model}.onnx`));
  return {
    model,
    tier: "edge",
    bytes,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    inputs: INPUTS[model],
    isFirstTier: true,
    hasRegion: true,
  };
}
