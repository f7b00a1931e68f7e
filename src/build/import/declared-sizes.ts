// What a model says that it takes, before a runtime believes it: ONNX Runtime works out shapes for an input of 2^31 elements
// until the machine has no memory left.

import type { Model } from "../onnx/model-file.ts";
import type { Problem } from "./problem.ts";

/** Far more than a request can bring. */
const MAX_ELEMENTS = 2n ** 28n;

/** Dimensions that are left open count as one. */
export function sizeProblems({ graph }: Model): Problem[] {
  const constants = new Set(graph.initializer.map(({ name }) => name));
  return graph.input.flatMap(({ name, type }) => {
    const dim = type?.value.case === "tensorType" && !constants.has(name) ? (type.value.value.shape?.dim ?? []) : [];
    const elements = dim.reduce((product, { value }) => (value.case === "dimValue" ? product * value.value : product), 1n);
    if (elements <= MAX_ELEMENTS) return [];
    return [{ problem: `input ${JSON.stringify(name)} is declared with ${elements} elements, and at most ${MAX_ELEMENTS} are taken`, remedy: "Export it with inputs of a size that a request can have." }];
  });
}
