// Defines the errors of importing a model.

import { errorFactory, type ErrorTable } from "../../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const importErrorTable = {
  model_file_unreadable: { status: 400, remedy: "Give the path of an ONNX file." },
  model_file_too_large: {
    status: 413,
    remedy: "Reduce its size first: quantize it, or export it in FP16.",
  },
  invalid_tensor_samples: {
    status: 400,
    remedy:
      'Give a file with one {"inputs": [{"name", "shape", "data"}]} per line, or a folder with input_0.pb, input_1.pb, and so on.',
  },
  project_exists: {
    status: 409,
    remedy: "Choose another folder with --out, or overwrite it with --replace.",
  },
  project_not_written: { status: 400, remedy: "Choose another folder with --out." },
  not_importable: {
    status: 400,
    remedy: "Export the model again, or pass the options that the problems mention.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(importErrorTable);

export const importErrors = {
  modelFileUnreadable: (path: string, reason: string) =>
    makeError("model_file_unreadable", `${path} cannot be read: ${reason}.`),
  modelFileTooLarge: (file: string, bytes: number, maxBytes: number) =>
    makeError(
      "model_file_too_large",
      `${file} has ${bytes} bytes including its data; the limit is ${maxBytes}.`,
    ),
  invalidTensorSamples: (path: string, reason: string) =>
    makeError("invalid_tensor_samples", `${path} has no samples for this model: ${reason}.`),
  projectExists: (folder: string) =>
    makeError("project_exists", `${folder} already contains a model project.`),
  projectNotWritten: (folder: string, reason: string, cause?: unknown) =>
    makeError("project_not_written", `${folder} cannot be written: ${reason}.`, { cause }),
  notImportable: (file: string, problems: readonly string[], remedies: readonly string[]) =>
    makeError("not_importable", `${file} cannot be imported: ${problems.join("; ")}.`, {
      remedy: remedies.join(" "),
    }),
} as const;
