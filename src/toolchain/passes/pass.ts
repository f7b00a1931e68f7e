// A pass: one change of a graph that does not change what it answers, within rounding.

import type { Model } from "../onnx/model-file.ts";
import { sortTopologically } from "../onnx/topological-sort.ts";
import { type ValueTable, buildValueTable } from "../onnx/value-table.ts";
import type { Runtime } from "../../runtime/runtime.ts";

export interface PassContext {
  /** For passes that compute: the CPU. */
  readonly runtime: Runtime;
}

export interface Pass {
  readonly name: string;
  readonly description: string;
  /** Changes the model, but no tensor's bytes in place: they may be views of a file. @returns how many changes */
  run(model: Model, tools: PassContext): number | Promise<number>;
}

/** Of a model whose nodes may be in any order; they are in order afterwards. */
export function buildSortedValueTable(model: Model): ValueTable {
  sortTopologically(model);
  return buildValueTable(model);
}
