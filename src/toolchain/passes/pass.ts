// A pass: one change of a graph that does not change what it answers, within rounding.

import type { Model } from "../onnx/model-file.ts";
import { sortNodes } from "../onnx/sort.ts";
import { type ValueTable, valuesOf } from "../onnx/values.ts";
import type { Runtime } from "../../runtime/runtime.ts";

export interface PassTools {
  /** For passes that compute: the CPU. */
  readonly runtime: Runtime;
}

export interface Pass {
  readonly name: string;
  readonly description: string;
  /** Changes the model, but no tensor's bytes in place: they may be views of a file. @returns how many changes */
  run(model: Model, tools: PassTools): number | Promise<number>;
}

/** Of a model whose nodes may be in any order; they are in order afterwards. */
export function tableOf(model: Model): ValueTable {
  sortNodes(model);
  return valuesOf(model);
}
