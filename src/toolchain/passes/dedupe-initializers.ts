// Merges equal initializers of a graph.

import { byteView } from "../../core/bytes.ts";
import type { Model } from "../onnx/model-file.ts";
import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { replaceValues } from "../onnx/replace-values.ts";
import { toTensor } from "../onnx/tensor-conversion.ts";
import type { Value } from "../onnx/value-table.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { buildSortedValueTable } from "./pass.ts";

/** @returns the number of removed initializers */
export function dedupeInitializers(model: Model): number {
  const table = buildSortedValueTable(model);
  const seen = new Map<string, Value>();
  const replacements = new Map<Value, Value>();
  const graphNumbers = new Map(
    [...new Set(table.values.map(({ graph }) => graph))].map((graph, number) => [graph, number]),
  );
  for (const value of table.values) {
    const { origin, graph } = value;
    const content =
      origin.kind === "initializer" && origin.isConstant ? contentKey(origin.tensor) : undefined;
    if (content === undefined) continue;
    const key = `${graphNumbers.get(graph)} ${content}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, value);
    else replacements.set(value, first);
  }
  const removed = new Set(
    [...replaceValues(table, replacements)].map(({ origin }) =>
      origin.kind === "initializer" ? origin.tensor : undefined,
    ),
  );
  for (const graph of graphNumbers.keys()) {
    const names = new Set(
      graph.initializer.filter((tensor) => removed.has(tensor)).map(({ name }) => name),
    );
    graph.initializer = graph.initializer.filter((tensor) => !removed.has(tensor));
    graph.input = graph.input.filter(({ name }) => !names.has(name));
    graph.valueInfo = graph.valueInfo.filter(({ name }) => !names.has(name));
  }
  return removed.size;
}

/**
 * Returns equal texts for equal tensors only, or undefined for tensors that are not compared, such
 * as strings.
 */
function contentKey(tensor: TensorProto): string | undefined {
  const { rawData, dims, dataType } = tensor;
  const listed = rawData.length > 0 ? undefined : toTensor(tensor);
  if (listed?.datatype === "BYTES" || (rawData.length === 0 && listed === undefined))
    return undefined;
  return `${dataType} [${dims.join(",")}] ${sha256HexSync(listed === undefined ? rawData : byteView(listed.data))}`;
}
