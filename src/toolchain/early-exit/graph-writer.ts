// Small helpers to put nodes, constants and declared tensors into a graph.

import { create } from "@bufbuild/protobuf";
import type { NumericDatatype } from "../../core/tensor.ts";
import { UniqueNames } from "../onnx/graph-edits.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { makeNode, type NodeSpec } from "../onnx/nodes.ts";
import { type ValueInfoProto, ValueInfoProtoSchema } from "../onnx/proto/onnx_pb.js";
import { renameValue } from "../onnx/rename-value.ts";
import { toDataType, type ElementType, makeTensor } from "../onnx/tensor-data.ts";
import { elementTypeOfDatatype } from "../onnx/tensor-conversion.ts";
import { buildValueTable } from "../onnx/value-table.ts";

export interface GraphWriter {
  /** Appends a node with one output. @returns the output's name, `wanted` unless it is taken */
  addNode(
    op: string,
    inputs: readonly string[],
    wanted: string,
    attributes?: NodeSpec["attributes"],
  ): string;
  /** @returns its name */
  addConstant(
    wanted: string,
    type: ElementType,
    dims: readonly number[],
    data: ArrayBufferView,
  ): string;
}

export function createGraphWriter(model: Model): GraphWriter {
  const names = new UniqueNames(model);
  return {
    addNode(op, inputs, wanted, attributes) {
      const output = names.reserve(wanted);
      model.graph.node.push(
        makeNode({
          name: names.reserve(`make_${output}`),
          op,
          inputs,
          outputs: [output],
          ...(attributes === undefined ? {} : { attributes }),
        }),
      );
      return output;
    },
    addConstant(wanted, type, dims, data) {
      const name = names.reserve(wanted);
      addInitializer(model, model.graph, makeTensor(name, type, dims.map(BigInt), data));
      return name;
    },
  };
}

/** Makes room for a tensor that is to have this name: what has it gets another. @returns the name that `value` has now */
export function releaseName(model: Model, name: string, value: string): string {
  const table = buildValueTable(model);
  const holder = table.values.find((one) => one.name === name);
  if (holder === undefined) return value;
  const other = new UniqueNames(model).reserve(`${name}_inner`);
  renameValue(model, table, holder, other);
  return value === name ? other : value;
}

/** @param shape -1 for a variable dimension */
export function createValueInfo(
  name: string,
  datatype: NumericDatatype,
  shape: readonly number[],
): ValueInfoProto {
  const dim = shape.map((size, axis) =>
    size >= 0
      ? { value: { case: "dimValue", value: BigInt(size) } as const }
      : { value: { case: "dimParam", value: axis === 0 ? "rows" : `size_${axis}` } as const },
  );
  return create(ValueInfoProtoSchema, {
    name,
    type: {
      value: {
        case: "tensorType",
        value: { elemType: toDataType(elementTypeOfDatatype(datatype)), shape: { dim } },
      },
    },
  });
}

/** Of ONNX's own operators. */
export const opsetVersion = ({ opsetImport }: Model): number =>
  Number(opsetImport.find(({ domain }) => domain === "" || domain === "ai.onnx")?.version ?? 0n);
