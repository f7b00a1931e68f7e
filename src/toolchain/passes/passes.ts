// All passes by name, in the order in which they are run.

import { removeRedundantCasts } from "../onnx/redundant-casts.ts";
import { freezeInitializers } from "../onnx/initializers.ts";
import { dedupeInitializers } from "./dedupe-initializers.ts";
import { foldBatchNorm } from "./fold-batch-norm.ts";
import { foldConstants } from "./fold-constants.ts";
import { mergeBias } from "./merge-bias.ts";
import { type Pass, buildSortedValueTable } from "./pass.ts";
import { removeIdentity } from "./remove-identity.ts";
import { removeUnused } from "./remove-unused.ts";
import { optimizeWithRuntime, GRAPH_OPTIMIZATION_LEVELS } from "./runtime-optimization.ts";

/** Run by default, again and again until none changes anything. */
export const GRAPH_PASSES: readonly Pass[] = [
  {
    name: "freeze-defaults",
    description: "weights that are listed as inputs become constants",
    run: freezeInitializers,
  },
  { name: "remove-identity", description: "Identity and Dropout go", run: removeIdentity },
  {
    name: "remove-casts",
    description: "casts go that change nothing",
    run: (model) => (buildSortedValueTable(model), removeRedundantCasts(model).size),
  },
  {
    name: "fold-constants",
    description: "what depends on no input is computed and stored",
    run: foldConstants,
  },
  {
    name: "merge-bias",
    description: "a constant added after Conv, Gemm or MatMul becomes its bias",
    run: mergeBias,
  },
  {
    name: "fold-batch-norm",
    description: "BatchNormalization goes into the weights before it",
    run: foldBatchNorm,
  },
  {
    name: "dedupe-initializers",
    description: "equal constants become one",
    run: dedupeInitializers,
  },
  {
    name: "remove-unused",
    description: "nodes and constants go that no output needs",
    run: removeUnused,
  },
];

/** ONNX Runtime's own optimisation at each level: only where it is asked for, once, after the others. */
export const RUNTIME_PASSES: readonly Pass[] = GRAPH_OPTIMIZATION_LEVELS.map((level) => ({
  name: `onnxruntime-${level}`,
  description: `ONNX Runtime's own optimisation, level ${level}`,
  run: (model) => optimizeWithRuntime(model, level),
}));
