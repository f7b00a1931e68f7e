// ONNX files: bytes to a model (the generated ModelProto) and back. Fields that the schema does not know are kept, so that
// nothing is lost on the way.

import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { errors, reasonOf } from "../../core/errors.ts";
import { type GraphProto, type ModelProto, ModelProtoSchema, type TensorProto, TensorProto_DataLocation } from "./proto/onnx_pb.js";
import { problemWithData } from "./tensors.ts";
import { graphsWithin, tensorsOfGraph, tensorsOfNodes } from "./walk.ts";

/** A model of which this much is sure: it has a graph, it says which operators it uses, and all its data is in it and fills its shapes. */
export interface Model extends ModelProto {
  graph: GraphProto;
}

/**
 * The model's tensors are views of `bytes`.
 * @throws invalid_model_file, external_data
 */
export function readModel(bytes: Uint8Array): Model {
  const model = parse(bytes);
  if (!hasGraph(model)) throw errors.invalidModelFile("it has no graph");
  if (model.opsetImport.length === 0) throw errors.invalidModelFile("it does not say which version of the operators it uses (opset_import)");
  for (const tensor of tensorsOf(model)) checkTensor(tensor);
  return model;
}

/** The same model gives the same bytes; one that was read and not changed, the bytes that it was read from, if they were in the order of ONNX's own writer. */
export function writeModel(model: ModelProto): Uint8Array {
  return toBinary(ModelProtoSchema, model);
}

function parse(bytes: Uint8Array): ModelProto {
  try {
    return fromBinary(ModelProtoSchema, bytes);
  } catch (error) {
    throw errors.invalidModelFile(reasonOf(error));
  }
}

const hasGraph = (model: ModelProto): model is Model => model.graph !== undefined;

function* tensorsOf({ graph, functions, trainingInfo }: Model): Generator<TensorProto> {
  const roots = [graph, ...trainingInfo.flatMap(({ initialization, algorithm }) => [initialization, algorithm])];
  for (const root of roots) if (root !== undefined) for (const one of graphsWithin(root)) yield* tensorsOfGraph(one);
  for (const { node } of functions) yield* tensorsOfNodes(node);
}

function checkTensor(tensor: TensorProto): void {
  if (tensor.dataLocation === TensorProto_DataLocation.EXTERNAL || tensor.externalData.length > 0) {
    throw errors.externalData(tensor.name, tensor.externalData.find(({ key }) => key === "location")?.value ?? "");
  }
  const problem = problemWithData(tensor);
  if (problem !== undefined) throw errors.invalidModelFile(`tensor ${JSON.stringify(tensor.name)} ${problem}`);
}
