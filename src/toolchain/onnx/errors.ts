// Errors of reading and cutting ONNX graphs.

import { shown, errorFactory, type ErrorTable } from "../../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const onnxErrorTable = {
  invalid_model_file: {
    status: 400,
    remedy: "Check that the file arrived whole, and with `onnx.checker` in Python.",
  },
  external_data: {
    status: 400,
    remedy:
      "Save the model with all data in one file: in Python, onnx.save(onnx.load(path), path).",
  },
  not_cuttable: {
    status: 400,
    remedy:
      "Cut at values that nodes make, by the graph's names; onnx.shape_inference.infer_shapes in Python stores their types.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(onnxErrorTable);

export const onnxErrors = {
  invalidModelFile: (reason: string) =>
    makeError(
      "invalid_model_file",
      `This is not a valid ONNX model: ${reason.replace(/\.$/, "")}.`,
    ),
  externalData: (tensor: string, location: string) =>
    makeError(
      "external_data",
      `Tensor ${shown(tensor)} has its data in another file, ${shown(location)}.`,
    ),
  externalDataRejected: (tensor: string, location: string, reason: string) =>
    makeError(
      "external_data",
      `Tensor ${shown(tensor)} has its data in ${shown(location)}, which ${reason}.`,
      {
        remedy:
          "Put the file whole into the model's folder and name it by a relative path; or save the model with all data in one file: in Python, onnx.save(onnx.load(path), path).",
      },
    ),
  notCuttable: (value: string, reason: string) =>
    makeError("not_cuttable", `The graph cannot be cut at ${shown(value)}: ${reason}.`),
} as const;
