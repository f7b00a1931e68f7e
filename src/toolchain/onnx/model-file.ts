// Reads and writes ONNX files: bytes to a model (the generated ModelProto) and back. Fields that
// the schema does not know survive the round trip.

import { clearField, fromBinary, toBinary } from "@bufbuild/protobuf";
import { reasonOf } from "../../core/errors.ts";
import { onnxErrors } from "./errors.ts";
import { traverseGraphs, tensorsOfGraph, tensorsOfNodes } from "./graph-traversal.ts";
import {
  type GraphProto,
  type ModelProto,
  ModelProtoSchema,
  type TensorProto,
  TensorProto_DataLocation,
  TensorProtoSchema,
} from "./proto/onnx_pb.js";
import { findDataProblem } from "./tensor-data.ts";

/**
 * A validated model: it has a graph and operator versions, and each tensor's data is present and
 * fills its shape.
 */
export interface Model extends ModelProto {
  graph: GraphProto;
}

/** Reads the data of a tensor that is stored in a separate file. @throws external_data */
export type ReadExternalData = (tensor: TensorProto) => Uint8Array;

/**
 * Parses an ONNX file. The model's tensors are views of `bytes`.
 * @param readExternal reads data in separate files, which are rejected by default
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
      "it does not declare the versions of its operators (opset_import)",
    );
  for (const tensor of traverseTensors(model)) {
    if (isExternal(tensor)) inlineExternalData(tensor, readExternal(tensor));
    const problem = findDataProblem(tensor);
    if (problem !== undefined)
      throw onnxErrors.invalidModelFile(`tensor ${JSON.stringify(tensor.name)} ${problem}`);
  }
  return model;
}

/**
 * Serializes a model deterministically. An unchanged model yields its original bytes if they were
 * in the field order of ONNX's own writer.
 */
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
    if (root !== undefined)
      for (const graphWithin of traverseGraphs(root)) yield* tensorsOfGraph(graphWithin);
  for (const { node } of functions) yield* tensorsOfNodes(node);
}

const isExternal = ({ dataLocation, externalData }: TensorProto): boolean =>
  dataLocation === TensorProto_DataLocation.EXTERNAL || externalData.length > 0;

/** Returns the location that the model declares for the data of an external tensor. */
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
