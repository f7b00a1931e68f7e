// Creates the error for an element of `inputs` whose type does not match the model's task.

import { coreErrors } from "../core/common-errors.ts";
import { describeType } from "../core/describe-type.ts";
import type { EdgeTierError } from "../core/errors.ts";

/** @param expected the accepted form, for example "a string" @returns invalid_request */
export function createInputTypeError(
  input: unknown,
  index: number,
  expected: string,
): EdgeTierError {
  const isImage =
    typeof input === "object" && input !== null && "b64" in input && typeof input.b64 === "string";
  const found = isImage ? "an image" : describeType(input);
  return coreErrors.invalidRequest([`\`inputs[${index}]\` is ${found}; expected ${expected}`]);
}
