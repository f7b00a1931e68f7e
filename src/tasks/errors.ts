// Errors of invalid task inputs, and of preprocessors.

import { errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const taskErrorTable = {
  empty_text: { status: 400, remedy: "Send at least one visible character." },
  invalid_image: { status: 400, remedy: "Send a complete JPEG or PNG file." },
  unsupported_image: {
    status: 415,
    remedy: "Convert it to an RGB or grayscale JPEG, or to a PNG.",
  },
  image_too_large: { status: 413, remedy: "Reduce the image size." },
  image_too_large_here: {
    status: 413,
    remedy:
      "Reduce the image size, or ask the operator to raise edgetier.imageMemoryBytes in package.json or to add a region tier.",
  },
  input_too_large: { status: 413, remedy: "Shorten the input." },
  too_many_inputs: { status: 413, remedy: "Split it into several requests." },
  invalid_tokens: { status: 400, remedy: "Use the model's own tokenizer, or send the text." },
  preprocessor_invalid: {
    status: 503,
    remedy: "Ask the operator to publish the model again.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  no_image_decoder: {
    status: 503,
    remedy:
      "Ask the operator to run `edgetier engine build` with the model's project and to deploy again; until then, the region responds.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(taskErrorTable);

export const taskErrors = {
  emptyText: (index: number) =>
    makeError("empty_text", `Input ${index} is empty or contains only white space.`),
  invalidImage: (index: number, reason: string, cause?: unknown) =>
    makeError("invalid_image", `Input ${index} cannot be read as an image: ${reason}.`, { cause }),
  unsupportedImage: (index: number, format: string) =>
    makeError("unsupported_image", `Input ${index} is ${format}, which is not supported.`),
  imageTooLarge: (index: number, width: number, height: number, maxPixels: number) =>
    makeError(
      "image_too_large",
      `Input ${index} is ${width} x ${height}; this model accepts at most ${maxPixels} pixels.`,
    ),
  imageTooLargeHere: (index: number, bytes: number, maxBytes: number) =>
    makeError(
      "image_too_large_here",
      `Decoding input ${index} requires ${bytes} bytes of memory; the limit here is ${maxBytes}.`,
    ),
  inputTooLarge: (index: number, bytes: number, maxBytes: number) =>
    makeError(
      "input_too_large",
      `Input ${index} has ${bytes} bytes; this model accepts at most ${maxBytes}.`,
    ),
  tooManyInputs: (count: number, maxInputs: number) =>
    makeError(
      "too_many_inputs",
      `The request has ${count} inputs; at most ${maxInputs} are allowed.`,
    ),
  invalidTokens: (id: number, vocabularySize: number) =>
    makeError(
      "invalid_tokens",
      `An input has the token id ${id}; this model's token ids are 0 to ${vocabularySize - 1}.`,
    ),
  preprocessorInvalid: (kind: string, problems: readonly string[]) =>
    makeError(
      "preprocessor_invalid",
      `The artifact of a ${kind} preprocessor is invalid: ${problems.join("; ")}.`,
    ),
  noImageDecoder: () =>
    makeError("no_image_decoder", "This Worker was deployed without image decoders."),
} as const;
