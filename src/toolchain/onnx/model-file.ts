// ONNX files: bytes to a model (the generated ModelProto) and back. Fields that the schema does not know are kept, so that
// nothing is lost on the way.

import { onnxErrors } from "./errors.ts";
import { clearField, fromBinary, toBinary } from "@bufbuild/protobuf";
import { reasonOf } from "../../core/errors.ts";
import {
  type GraphProto,
  type ModelProto,
  ModelProtoSchema,
  type TensorProto,
  TensorProto_DataLocation,
  TensorProtoSchema,
} from "./proto/onnx_pb.js";
import { findDataProblem } from "./tensor-data.ts";
import { traverseGraphs, tensorsOfGraph, tensorsOfNodes } from "./graph-traversal.ts";

/** A model of which this much is sure: it has a graph, it says which operators it uses, and all its data is in it and fills its shapes. */
export interface Model extends ModelProto {
  graph: GraphProto;
}

/** Gives the data of a tensor that is in another file. @throws external_data */
export type ReadExternalData = (tensor: TensorProto) => Uint8Array;

/**
 * The model's tensors are views of `bytes`.
 * @param readExternal without it, data in another file is refused
 * @throws invalid_model_file, external_data
 */
export function parseModel(
  bytes: Uint8Array,
  readExternal: ReadExternalData = rejectExternalData,
): Model {
  const model = decodeModelProto(bytes);
  if (!hasGraph(model)) throw onnxErrors.invalidModelFile("it has no graph");
  if (model.opsetImport.length === 0)
    throw onnxErrors.invalidModelFile(
      "it does not say which version of the operators it uses (opset_import)",
    );
  for (const tensor of traverseTensors(model)) {
    if (isExternal(tensor)) inlineExternalData(tensor, readExternal(tensor));
    const problem = findDataProblem(tensor);
    if (problem !== undefined)
      throw onnxErrors.invalidModelFile(`tensor ${JSON.stringify(tensor.name)} ${problem}`);
  }
  return model;
}

/** The same model gives the same bytes; one that was read and not changed, the bytes that it was read from, if they were in the order of ONNX's own writer. */
export function serializeModel(model: ModelProto): Uint8Array {
  return toBinary(ModelProtoSchema, model);
}

function decodeModelProto(bytes: Uint8Array): ModelProto {
  try {
    return fromBinary(ModelProtoSchema, bytes);
  } catch (error) {
    throw onnxErrors.invalidModelFile(reasonOf(error));
  }
}

const hasGraph = (model: ModelProto): model is Model => model.graph !== undefined;

function* traverseTensors({ graph, functions, trainingInfo }: Model): Generator<TensorProto> {
  const roots = [
    graph,
    ...trainingInfo.flatMap(({ initialization, algorithm }) => [initialization, algorithm]),
  ];
  for (const root of roots)
    if (root !== undefined) for (const one of traverseGraphs(root)) yield* tensorsOfGraph(one);
  for (const { node } of functions) yield* tensorsOfNodes(node);
}

const isExternal = ({ dataLocation, externalData }: TensorProto): boolean =>
  dataLocation === TensorProto_DataLocation.EXTERNAL || externalData.length > 0;

/** Where the data of an external tensor is, as the model says it. */
export const externalDataLocation = ({ externalData }: TensorProto): string =>
  externalData.find(({ key }) => key === "location")?.value ?? "";

function rejectExternalData(tensor: TensorProto): never {
  throw onnxErrors.externalData(tensor.name, externalDataLocation(tensor));
}

function inlineExternalData(tensor: TensorProto, data: Uint8Array): void {
  tensor.rawData = data;
  tensor.externalData = [];
  clearField(tensor, TensorProtoSchema.field.dataLocation);
}
