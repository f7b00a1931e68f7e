// Errors of inputs that a task rejects.

import { errorFactory, type ErrorTable } from "../core/errors.ts";

/** Status and remedy of each code that this module owns. */
export const taskErrorTable = {
  empty_text: { status: 400, remedy: "Send at least one visible character." },
  invalid_image: { status: 400, remedy: "Send a whole JPEG or PNG file." },
  unsupported_image: { status: 415, remedy: "Convert it to a JPEG in RGB or grey, or to a PNG." },
  image_too_large: { status: 413, remedy: "Make the image smaller." },
  image_too_large_here: {
    status: 413,
    remedy:
      "Make the image smaller; the operator can raise edgetier.imageMemoryBytes in package.json, or add a region tier, which has more.",
  },
  input_too_large: { status: 413, remedy: "Shorten the input." },
  too_many_inputs: { status: 413, remedy: "Split it into several requests." },
  invalid_tokens: { status: 400, remedy: "Use the model's own tokenizer, or send the text." },
  preprocessor_invalid: {
    status: 503,
    remedy: "The operator should publish the model again.",
    isRetryable: true,
    retryAfterSeconds: 10,
  },
  no_image_decoder: {
    status: 503,
    remedy:
      "The region answers instead; the operator should run `edgetier engine build` with the model's project and deploy again.",
  },
} as const satisfies ErrorTable;

const makeError = errorFactory(taskErrorTable);

export const taskErrors = {
  emptyText: (index: number) =>
    makeError("empty_text", `Input ${index} is empty or only white space.`),
  invalidImage: (index: number, reason: string, cause?: unknown) =>
    makeError("invalid_image", `Input ${index} cannot be read as an image: ${reason}.`, { cause }),
  unsupportedImage: (index: number, what: string) =>
    makeError("unsupported_image", `Input ${index} is ${what}, which is not taken.`),
  imageTooLarge: (index: number, width: number, height: number, maxPixels: number) =>
    makeError(
      "image_too_large",
      `Input ${index} is ${width} x ${height}; this model takes at most ${maxPixels} pixels.`,
    ),
  imageTooLargeHere: (index: number, bytes: number, maxBytes: number) =>
    makeError(
      "image_too_large_here",
      `Decoding input ${index} takes ${bytes} bytes of memory, and may take ${maxBytes} here.`,
    ),
  inputTooLarge: (index: number, bytes: number, maxBytes: number) =>
    makeError(
      "input_too_large",
      `Input ${index} has ${bytes} bytes; this model takes at most ${maxBytes}.`,
    ),
  tooManyInputs: (count: number, maxInputs: number) =>
    makeError(
      "too_many_inputs",
      `The request has ${count} inputs; at most ${maxInputs} are taken at once.`,
    ),
  invalidTokens: (id: number, pieces: number) =>
    makeError(
      "invalid_tokens",
      `An input has the token ${id}; this model's are from 0 to ${pieces - 1}.`,
    ),
  preprocessorInvalid: (kind: string, problems: readonly string[]) =>
    makeError(
      "preprocessor_invalid",
      `The artifact of a ${kind} preprocessor is not valid: ${problems.join("; ")}.`,
    ),
  noImageDecoder: () =>
    makeError("no_image_decoder", "This Worker was deployed without image decoders."),
} as const;
