// Builds a new ONNX graph node by node.

import { create } from "@bufbuild/protobuf";
import type { Datatype } from "../../core/tensor.ts";
import { toOnnxType } from "../../runtime/wasm/onnx-datatypes.ts";
import type { Model } from "../onnx/model-file.ts";
import { makeNode, type NodeSpec } from "../onnx/nodes.ts";
import {
  GraphProtoSchema,
  ModelProtoSchema,
  OperatorSetIdProtoSchema,
  TensorShapeProtoSchema,
  TypeProto_TensorSchema,
  TypeProtoSchema,
  type ValueInfoProto,
  ValueInfoProtoSchema,
} from "../onnx/proto/onnx_pb.js";
import { makeTensor } from "../onnx/tensor-data.ts";

const OPSET = 20n;
const IR_VERSION = 10n;

/** Describes a graph input or output. A named dimension is variable. */
export interface TensorInfo {
  readonly name: string;
  readonly datatype: Exclude<Datatype, "BYTES">;
  readonly shape: readonly (number | string)[];
}

export class GraphBuilder {
  readonly #graph = create(GraphProtoSchema, {});

  constructor(name: string) {
    this.#graph.name = name;
  }

  /** @param type ONNX name of the type, such as `float` or `int64` @returns `name` */
  addConstant(name: string, type: string, dims: readonly number[], data: ArrayBufferView): string {
    this.#graph.initializer.push(makeTensor(name, type, dims.map(BigInt), data));
    return name;
  }

  /** @param output name of the output, unique in the graph @returns `output` */
  addNode(
    output: string,
    op: string,
    inputs: readonly string[],
    attributes: NodeSpec["attributes"] = [],
  ): string {
    this.#graph.node.push(
      makeNode({ name: `node_${output}`, op, inputs, outputs: [output], attributes }),
    );
    return output;
  }

  build(inputs: readonly TensorInfo[], outputs: readonly TensorInfo[]): Model {
    this.#graph.input = inputs.map(toValueInfo);
    this.#graph.output = outputs.map(toValueInfo);
    const opsetImport = [create(OperatorSetIdProtoSchema, { domain: "", version: OPSET })];
    return Object.assign(
      create(ModelProtoSchema, { irVersion: IR_VERSION, opsetImport, producerName: "edgetier" }),
      { graph: this.#graph },
    );
  }
}

function toValueInfo({ name, datatype, shape }: TensorInfo): ValueInfoProto {
  const dim = shape.map((size) => ({
    value:
      typeof size === "number"
        ? ({ case: "dimValue", value: BigInt(size) } as const)
        : ({ case: "dimParam", value: size } as const),
  }));
  const tensorType = create(TypeProto_TensorSchema, {
    elemType: toOnnxType(datatype),
    shape: create(TensorShapeProtoSchema, { dim }),
  });
  return create(ValueInfoProtoSchema, {
    name,
    type: create(TypeProtoSchema, { value: { case: "tensorType", value: tensorType } }),
  });
}
