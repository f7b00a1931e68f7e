// Graph writer: adds nodes, constants and declared tensors to a graph.

import { create } from "@bufbuild/protobuf";
import type { NumericDatatype } from "../../core/tensor.ts";
import { UniqueNames } from "../onnx/graph-edits.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { makeNode, type NodeSpec } from "../onnx/nodes.ts";
import { type ValueInfoProto, ValueInfoProtoSchema } from "../onnx/proto/onnx_pb.js";
import { renameValue } from "../onnx/rename-value.ts";
import { elementTypeOfDatatype } from "../onnx/tensor-conversion.ts";
import { toDataType, type ElementType, makeTensor } from "../onnx/tensor-data.ts";
import { buildValueTable } from "../onnx/value-table.ts";

export interface GraphWriter {
  /** Appends a node with one output. @returns the output's name, which is `preferredName` unless it is taken */
  addNode(
    op: string,
    inputs: readonly string[],
    preferredName: string,
    attributes?: NodeSpec["attributes"],
  ): string;
  /** @returns the constant's name, which is `preferredName` unless it is taken */
  addConstant(
    preferredName: string,
    type: ElementType,
    dims: readonly number[],
    data: ArrayBufferView,
  ): string;
}

export function createGraphWriter(model: Model): GraphWriter {
  const names = new UniqueNames(model);
  return {
    addNode(op, inputs, preferredName, attributes) {
      const output = names.reserve(preferredName);
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
    addConstant(preferredName, type, dims, data) {
      const name = names.reserve(preferredName);
      addInitializer(model, model.graph, makeTensor(name, type, dims.map(BigInt), data));
      return name;
    },
  };
}

/** Releases a name for a new tensor by renaming its holder. @returns the current name of `value` */
export function releaseName(model: Model, name: string, value: string): string {
  const table = buildValueTable(model);
  const holder = table.values.find((candidate) => candidate.name === name);
  if (holder === undefined) return value;
  const newName = new UniqueNames(model).reserve(`${name}_inner`);
  renameValue(model, table, holder, newName);
  return value === name ? newName : value;
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

/** Version of ONNX's default operator set. */
export const opsetVersion = ({ opsetImport }: Model): number =>
  Number(opsetImport.find(({ domain }) => domain === "" || domain === "ai.onnx")?.version ?? 0n);
