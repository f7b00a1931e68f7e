// Casts that a converted graph should not have.
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { buildValueTable } from "../../../src/toolchain/onnx/value-table.ts";

/** Casts of what was just cast the other way, and casts to what a value is already. */
export function findRedundantCasts(model: Model): string[] {
  const table = buildValueTable(model);
  return table.nodes.flatMap((node) => {
    const [from] = table.inputsOf(node);
    const [to] = table.outputsOf(node);
    if (node.opType !== "Cast") return [];
    const before =
      from?.origin.kind === "node" && from.origin.node.opType === "Cast"
        ? table.inputsOf(from.origin.node)[0]?.type
        : undefined;
    return from?.type === to?.type || (before !== undefined && before === to?.type)
      ? [node.name]
      : [];
  });
}
