// Defines a pass: one transformation of a graph that preserves its outputs, within rounding.

import type { Runtime } from "../../runtime/runtime.ts";
import type { Model } from "../onnx/model-file.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { type ValueTable, buildValueTable } from "../onnx/value-table.ts";

export interface PassContext {
  /** The CPU runtime, for passes that compute values. */
  readonly runtime: Runtime;
}

export interface Pass {
  readonly name: string;
  readonly description: string;
  /**
   * Changes the model, but no tensor's bytes in place, because they may be views of a file.
   * @returns the number of changes
   */
  run(model: Model, tools: PassContext): number | Promise<number>;
}

/** Sorts the nodes of the model topologically, then builds its value table. */
export function buildSortedValueTable(model: Model): ValueTable {
  sortTopologically(model);
  return buildValueTable(model);
}
