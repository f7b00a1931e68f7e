// What a model says that it takes, before a runtime believes it: for a shape that is an input of 2^31 elements, ONNX Runtime
// works out that many dimensions, until the machine has no memory left.

import type { Model } from "../onnx/model-file.ts";
import type { ImportProblem } from "./import-problem.ts";

/** Of one dimension; far more than a request can bring. */
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
        problem: `input ${JSON.stringify(name)} is declared with a dimension of ${size}, and at most ${MAX_DIMENSION} are taken`,
        remedy: "Export it with inputs of a size that a request can have.",
      },
    ];
  });
}
