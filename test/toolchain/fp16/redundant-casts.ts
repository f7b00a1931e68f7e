// Finds casts that a converted graph should not have.
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { buildValueTable } from "../../../src/toolchain/onnx/value-table.ts";

/** Lists casts that revert another cast, and casts to the type that a value already has. */
export function findRedundantCasts(model: Model): string[] {
  const table = buildValueTable(model);
  return table.nodes.flatMap((node) => {
    const [input] = table.inputsOf(node);
    const [output] = table.outputsOf(node);
    if (node.opType !== "Cast") return [];
    const originalType =
      input?.origin.kind === "node" && input.origin.node.opType === "Cast"
        ? table.inputsOf(input.origin.node)[0]?.type
        : undefined;
    return input?.type === output?.type ||
      (originalType !== undefined && originalType === output?.type)
      ? [node.name]
      : [];
  });
}
