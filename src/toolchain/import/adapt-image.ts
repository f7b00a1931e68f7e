// Makes an image graph's input the one that the image preprocessor gives: `pixels`, FP32 [batch, 3, height, width].

import type { Model } from "../onnx/model-file.ts";
import { toDataType } from "../onnx/tensor-data.ts";
import { PIXELS_INPUT_NAME } from "../../tasks/image/image-preprocessor.ts";
import { readDeclaredDims, elemTypeOf, renameInput, convertInputToNchw } from "./adapt-inputs.ts";
import type { ImportProblem } from "./import-problem.ts";

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

const CHANNELS = 3;

/** Changes the model. @param wanted where the graph takes any size @returns what it takes, and what was changed; or why it cannot be */
export function adaptImage(
  model: Model,
  wanted: ImageSize | undefined,
): (ImageSize & { readonly notes: readonly string[] }) | ImportProblem {
  const [input, ...others] = model.graph.input;
  const dims = input && readDeclaredDims(input);
  const shown = model.graph.input.map(({ name }) => JSON.stringify(name)).join(", ");
  const remedy =
    "Export it so that it takes one FP32 tensor [batch, 3, height, width], or import it with --task tensor.";
  if (input === undefined || others.length > 0 || dims?.length !== 4)
    return {
      problem: `its inputs are ${shown}, where an image's is one of four dimensions`,
      remedy,
    };
  if (elemTypeOf(input) !== toDataType("float"))
    return { problem: `its input ${shown} is not FP32`, remedy };

  const notes: string[] = [];
  const isChannelsLast = dims[1] !== CHANNELS && dims[3] === CHANNELS;
  if (isChannelsLast) {
    convertInputToNchw(model, input.name);
    notes.push("the image's channels come first now, and a Transpose puts them last for the graph");
  } else if (dims[1] !== CHANNELS) {
    return {
      problem: `its input ${shown} is [${dims.map((size) => size ?? "?").join(", ")}], which has three channels neither first nor last`,
      remedy,
    };
  }
  const [height, width] = isChannelsLast ? dims.slice(1, 3) : dims.slice(2);
  const size = { width: width ?? wanted?.width, height: height ?? wanted?.height };
  if (size.width === undefined || size.height === undefined)
    return {
      problem: "it takes images of any size",
      remedy: "Say the size that it was trained for, with --size <width>x<height>.",
    };
  if (wanted !== undefined && (wanted.width !== size.width || wanted.height !== size.height))
    return {
      problem: `it takes images of ${size.width}x${size.height}, and --size is ${wanted.width}x${wanted.height}`,
      remedy: "Leave --size out.",
    };
  if (input.name !== PIXELS_INPUT_NAME) {
    notes.push(`input ${JSON.stringify(input.name)} is now called "${PIXELS_INPUT_NAME}"`);
    renameInput(model, input.name, PIXELS_INPUT_NAME);
  }
  return { width: size.width, height: size.height, notes };
}
