// Lists all passes by name, in their order of execution.

import { freezeInitializers } from "../onnx/initializers.ts";
import { removeRedundantCasts } from "../onnx/redundant-casts.ts";
import { dedupeInitializers } from "./dedupe-initializers.ts";
import { foldBatchNorm } from "./fold-batch-norm.ts";
import { foldConstants } from "./fold-constants.ts";
import { mergeBias } from "./merge-bias.ts";
import { type Pass, buildSortedValueTable } from "./pass.ts";
import { removeIdentity } from "./remove-identity.ts";
import { removeUnused } from "./remove-unused.ts";
import { optimizeWithRuntime, GRAPH_OPTIMIZATION_LEVELS } from "./runtime-optimization.ts";

/** The default passes, which repeat until none of them changes the graph. */
export const GRAPH_PASSES: readonly Pass[] = [
  {
    name: "freeze-defaults",
    description: "turn weights that are listed as inputs into constants",
    run: freezeInitializers,
  },
  {
    name: "remove-identity",
    description: "remove Identity and Dropout nodes",
    run: removeIdentity,
  },
  {
    name: "remove-casts",
    description: "remove casts without effect",
    run: (model) => (buildSortedValueTable(model), removeRedundantCasts(model).size),
  },
  {
    name: "fold-constants",
    description: "compute and store values that depend on no input",
    run: foldConstants,
  },
  {
    name: "merge-bias",
    description: "merge constants added after Conv, Gemm or MatMul into the bias",
    run: mergeBias,
  },
  {
    name: "fold-batch-norm",
    description: "fold BatchNormalization into the preceding weights",
    run: foldBatchNorm,
  },
  {
    name: "dedupe-initializers",
    description: "merge equal constants",
    run: dedupeInitializers,
  },
  {
    name: "remove-unused",
    description: "remove nodes and constants that no output needs",
    run: removeUnused,
  },
];

/**
 * ONNX Runtime's own optimization at each level. These run only if requested, once, after all other
 * passes.
 */
export const RUNTIME_PASSES: readonly Pass[] = GRAPH_OPTIMIZATION_LEVELS.map((level) => ({
  name: `onnxruntime-${level}`,
  description: `apply ONNX Runtime's own optimization, level ${level}`,
  run: (model) => optimizeWithRuntime(model, level),
}));
