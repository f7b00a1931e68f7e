// Adapts an image graph's input to the image preprocessor: `pixels`, FP32 [batch, 3, height,
// width].

import { PIXELS_INPUT_NAME } from "../../tasks/image/image-preprocessor.ts";
import type { Model } from "../onnx/model-file.ts";
import { toDataType } from "../onnx/tensor-data.ts";
import { readDeclaredDims, elemTypeOf, renameInput, convertInputToNchw } from "./adapt-inputs.ts";
import type { ImportProblem } from "./import-problem.ts";

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

const CHANNELS = 3;

/**
 * Changes the model.
 * @param expectedSize the size to use if the graph accepts any
 * @returns the accepted size and the changes, or the problem
 */
export function adaptImage(
  model: Model,
  expectedSize: ImageSize | undefined,
): (ImageSize & { readonly notes: readonly string[] }) | ImportProblem {
  const [input, ...others] = model.graph.input;
  const dims = input && readDeclaredDims(input);
  const shown = model.graph.input.map(({ name }) => JSON.stringify(name)).join(", ");
  const remedy =
    "Export it with one FP32 input [batch, 3, height, width], or import it with --task tensor.";
  if (input === undefined || others.length > 0 || dims?.length !== 4)
    return {
      problem: `its inputs are ${shown}; expected one input with four dimensions`,
      remedy,
    };
  if (elemTypeOf(input) !== toDataType("float"))
    return { problem: `its input ${shown} is not FP32`, remedy };

  const notes: string[] = [];
  const isChannelsLast = dims[1] !== CHANNELS && dims[3] === CHANNELS;
  if (isChannelsLast) {
    convertInputToNchw(model, input.name);
    notes.push(
      "the image's channels now come first; a Transpose restores the graph's channels-last layout",
    );
  } else if (dims[1] !== CHANNELS) {
    return {
      problem: `its input ${shown} is [${dims.map((size) => size ?? "?").join(", ")}], without three channels in the first or last place`,
      remedy,
    };
  }
  const [height, width] = isChannelsLast ? dims.slice(1, 3) : dims.slice(2);
  const size = { width: width ?? expectedSize?.width, height: height ?? expectedSize?.height };
  if (size.width === undefined || size.height === undefined)
    return {
      problem: "its image size is not fixed",
      remedy: "Give the size that it was trained for, with --size <width>x<height>.",
    };
  if (
    expectedSize !== undefined &&
    (expectedSize.width !== size.width || expectedSize.height !== size.height)
  )
    return {
      problem: `its image size is ${size.width}x${size.height}, but --size is ${expectedSize.width}x${expectedSize.height}`,
      remedy: "Omit --size.",
    };
  if (input.name !== PIXELS_INPUT_NAME) {
    notes.push(`input ${JSON.stringify(input.name)} is renamed to "${PIXELS_INPUT_NAME}"`);
    renameInput(model, input.name, PIXELS_INPUT_NAME);
  }
  return { width: size.width, height: size.height, notes };
}
