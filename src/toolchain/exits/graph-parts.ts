// Small helpers to put nodes, constants and declared tensors into a graph.

import { create } from "@bufbuild/protobuf";
import type { NumericDatatype } from "../../core/tensor.ts";
import { FreshNames } from "../onnx/edit.ts";
import { addInitializer } from "../onnx/initializers.ts";
import type { Model } from "../onnx/model-file.ts";
import { makeNode, type NewNode } from "../onnx/nodes.ts";
import { type ValueInfoProto, ValueInfoProtoSchema } from "../onnx/proto/onnx_pb.js";
import { renameValue } from "../onnx/rename.ts";
import { codeOf, type ElementType, makeTensor } from "../onnx/tensors.ts";
import { elementTypeOfDatatype } from "../onnx/tensor-values.ts";
import { valuesOf } from "../onnx/values.ts";

export interface GraphWriter {
  /** Appends a node with one output. @returns the output's name, `wanted` unless it is taken */
  node(
    op: string,
    inputs: readonly string[],
    wanted: string,
    attributes?: NewNode["attributes"],
  ): string;
  /** @returns its name */
  constant(
    wanted: string,
    type: ElementType,
    dims: readonly number[],
    data: ArrayBufferView,
  ): string;
}

export function writerOf(model: Model): GraphWriter {
  const names = new FreshNames(model);
  return {
    node(op, inputs, wanted, attributes) {
      const output = names.take(wanted);
      model.graph.node.push(
        makeNode({
          name: names.take(`make_${output}`),
          op,
          inputs,
          outputs: [output],
          ...(attributes === undefined ? {} : { attributes }),
        }),
      );
      return output;
    },
    constant(wanted, type, dims, data) {
      const name = names.take(wanted);
      addInitializer(model, model.graph, makeTensor(name, type, dims.map(BigInt), data));
      return name;
    },
  };
}

/** Makes room for a tensor that is to have this name: what has it gets another. @returns the name that `value` has now */
export function freeName(model: Model, name: string, value: string): string {
  const table = valuesOf(model);
  const holder = table.values.find((one) => one.name === name);
  if (holder === undefined) return value;
  const other = new FreshNames(model).take(`${name}_inner`);
  renameValue(model, table, holder, other);
  return value === name ? other : value;
}

/** @param shape -1 for a variable dimension */
export function tensorInfo(
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
        value: { elemType: codeOf(elementTypeOfDatatype(datatype)), shape: { dim } },
      },
    },
  });
}

/** Of ONNX's own operators. */
export const opsetOf = ({ opsetImport }: Model): number =>
  Number(opsetImport.find(({ domain }) => domain === "" || domain === "ai.onnx")?.version ?? 0n);
