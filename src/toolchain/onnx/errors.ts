// Defines the errors of reading and cutting ONNX graphs.

import { formatValue, errorFactory, type ErrorTable } from "../../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const onnxErrorTable = {
  invalid_model_file: {
    status: 400,
    remedy: "Check that the file is complete, and validate it with `onnx.checker` in Python.",
  },
  external_data: {
    status: 400,
    remedy: "Save the model as a single file. In Python: onnx.save(onnx.load(path), path).",
  },
  not_cuttable: {
    status: 400,
    remedy:
      "Cut at values that nodes produce, by their names in the graph. Run onnx.shape_inference.infer_shapes in Python to store their types.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(onnxErrorTable);

export const onnxErrors = {
  invalidModelFile: (reason: string) =>
    makeError(
      "invalid_model_file",
      `The file is not a valid ONNX model: ${reason.replace(/\.$/, "")}.`,
    ),
  externalData: (tensor: string, location: string) =>
    makeError(
      "external_data",
      `The data of tensor ${formatValue(tensor)} is in a separate file, ${formatValue(location)}.`,
    ),
  externalDataRejected: (tensor: string, location: string, reason: string) =>
    makeError(
      "external_data",
      `The data of tensor ${formatValue(tensor)} is in ${formatValue(location)}, which ${reason}.`,
      {
        remedy:
          "Put the complete file into the model's folder and reference it by a relative path. Or save the model as a single file, in Python: onnx.save(onnx.load(path), path).",
      },
    ),
  notCuttable: (value: string, reason: string) =>
    makeError("not_cuttable", `The graph cannot be cut at ${formatValue(value)}: ${reason}.`),
} as const;
