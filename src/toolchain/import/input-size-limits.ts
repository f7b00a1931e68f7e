// Checks the declared input sizes of a model before a runtime opens it. For an input of 2^31
// elements, ONNX Runtime enumerates that many dimensions until the machine runs out of memory.

import type { Model } from "../onnx/model-file.ts";
import type { ImportProblem } from "./import-problem.ts";

/** Maximum size of one dimension, far beyond the size of any request. */
const MAX_DIMENSION = 2n ** 28n;

export function findSizeProblems({ graph }: Model): ImportProblem[] {
  return graph.input.flatMap(({ name, type }) => {
    const dim = type?.value.case === "tensorType" ? (type.value.value.shape?.dim ?? []) : [];
    const size = dim.flatMap(({ value }) =>
      value.case === "dimValue" && value.value > MAX_DIMENSION ? [value.value] : [],
    )[0];
    if (size === undefined) return [];
    return [
      {
        problem: `input ${JSON.stringify(name)} declares a dimension of ${size}; the limit is ${MAX_DIMENSION}`,
        remedy: "Export it with input sizes that fit in a request.",
      },
    ];
  });
}
