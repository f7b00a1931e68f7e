// Errors of reading requests: bodies, JSON, and Open Inference Protocol v2 tensors. Details of `/v2` use Triton's texts,
// because Triton clients match them.

import { coreErrorTable } from "../core/common-errors.ts";
import { formatValue, errorFactory, type ErrorTable, quoteName } from "../core/errors.ts";

const forModel = (model: string | undefined) =>
  model === undefined ? "" : ` for model ${quoteName(model)}`;
const dimensions = (shape: readonly number[]) => `[${shape.join(",")}]`;

/** Status and remedy of each code that this module owns. */
export const protocolErrorTable = {
  invalid_json: { status: 400, remedy: 'Send a JSON object such as {"inputs": "some text"}.' },
  body_too_large: { status: 413, remedy: "Send fewer or shorter inputs in one request." },
  unsupported_encoding: {
    status: 415,
    remedy: "Use gzip or deflate, or send the body uncompressed.",
  },
  method_not_allowed: { status: 405, remedy: "Use {allowed}." },
  route_not_found: { status: 404, remedy: "See /docs for the routes." },
  invalid_deadline: { status: 400, remedy: "Send for example x-deadline-ms: 250, or omit it." },
} as const satisfies ErrorTable;

const makeError = errorFactory({ ...coreErrorTable, ...protocolErrorTable });

export const protocolErrors = {
  invalidJson: (reason: string) =>
    makeError("invalid_json", `The body is not valid JSON: ${reason}.`),
  bodyTooLarge: (maxBytes: number) =>
    makeError("body_too_large", `The body is larger than ${maxBytes} bytes.`),
  unsupportedEncoding: (encoding: string) =>
    makeError(
      "unsupported_encoding",
      `Unsupported compression type: content-encoding ${formatValue(encoding)}.`,
    ),
  methodNotAllowed: (method: string, allowed: readonly string[]) =>
    makeError("method_not_allowed", `Method Not Allowed: this path does not support ${method}.`, {
      values: { allowed: allowed.join(", ") },
    }),
  routeNotFound: (path: string) =>
    makeError("route_not_found", `No route matches ${formatValue(path)}.`),
  invalidDeadline: (value: string) =>
    makeError(
      "invalid_deadline",
      `The deadline ${formatValue(value)} is not an integer from 1 to 600000 (milliseconds).`,
    ),
  unparsableJson: (reason: string) =>
    makeError("invalid_json", `failed to parse the request JSON buffer: ${reason}.`, {
      remedy: "Send a JSON object in the format of the Open Inference Protocol v2.",
    }),
  unparsableFields: (problems: readonly string[]) =>
    makeError(
      "invalid_request",
      `Unable to parse ${problems.map((problem) => problem.replace(/^[^:]*/, quoteName)).join("; ")}.`,
      { remedy: "See the Open Inference Protocol v2 for the fields." },
    ),
  badJsonLength: (text: string) =>
    makeError(
      "invalid_request",
      `Unable to parse Inference-Header-Content-Length, got: ${formatValue(text)}.`,
      {
        remedy:
          "Send the number of JSON bytes at the start of the body, or 0 for a raw binary request.",
      },
    ),
  jsonLengthOutOfRange: (length: number, bodyBytes: number) =>
    makeError(
      "invalid_request",
      `inference header size should be in range (0, ${bodyBytes}), got: ${length}.`,
      {
        remedy:
          "Set Inference-Header-Content-Length to the number of JSON bytes at the start of the body, or 0 for a raw binary request.",
      },
    ),
  missingBinaryData: (input: string, missingBytes: number, model?: string) =>
    makeError(
      "invalid_request",
      `unexpected size for input ${quoteName(input)}, expecting ${missingBytes} additional bytes${forModel(model)}.`,
      { remedy: "Send the bytes of all binary tensors after the JSON, in the same order." },
    ),
  extraBinaryData: (extraBytes: number, model?: string) =>
    makeError(
      "invalid_request",
      `unexpected additional input data for model${model === undefined ? "" : ` ${quoteName(model)}`}: ${extraBytes} bytes.`,
      { remedy: "Set each binary_data_size to the number of bytes of its input." },
    ),
  dataInSeveralForms: (input: string, forms: readonly string[]) =>
    makeError(
      "invalid_tensor",
      `Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But ${forms.length === 0 ? "no field is set" : `set ${forms.map(quoteName).join(" ")}`}: ${quoteName(input)}.`,
      { remedy: "Send the tensor's data in one form only." },
    ),
  noJsonForm: (datatype: string, input: string) =>
    makeError(
      "invalid_tensor",
      `receiving ${datatype} data via JSON is not supported. Please use the binary data format for input ${quoteName(input)}.`,
      { remedy: "Send it as binary data with binary_data_size." },
    ),
  wrongElementCount: (input: string, count: number, shape: readonly number[]) =>
    makeError(
      "invalid_tensor",
      `Unable to parse 'data': Shape does not match true shape of 'data' field: ${quoteName(input)} has ${count} elements, its shape is ${dimensions(shape)}.`,
      { remedy: "Send exactly the elements of the shape, flat or nested." },
    ),
  wrongByteSize: (input: string, expectedBytes: number, bytes: number, model?: string) =>
    makeError(
      "invalid_tensor",
      `input byte size mismatch for input ${quoteName(input)}${forModel(model)}. Expected ${expectedBytes}, got ${bytes}.`,
      { remedy: "Send exactly the bytes that shape and datatype require." },
    ),
  wrongStringCount: (input: string, expected: number, found: number | string, model?: string) =>
    makeError(
      "invalid_tensor",
      `expected ${expected} string elements for inference input ${quoteName(input)}${forModel(model)}, got ${found}.`,
      { remedy: "Send one string for each element of the shape." },
    ),
  truncatedStringLength: (input: string, bytes: number, model?: string) =>
    makeError(
      "invalid_tensor",
      `incomplete string length indicator for inference input ${quoteName(input)}${forModel(model)}, expecting 4 bytes but only ${bytes} bytes available.`,
      { remedy: "Send each string as its length (little-endian uint32), followed by its bytes." },
    ),
  truncatedString: (input: string, length: number, bytes: number, model?: string) =>
    makeError(
      "invalid_tensor",
      `incomplete string data for inference input ${quoteName(input)}${forModel(model)}, expecting string of length ${length} but only ${bytes} bytes available.`,
      { remedy: "Send each string as its length (little-endian uint32), followed by its bytes." },
    ),
  wrongInputs: (model: string, expected: readonly string[], found: readonly string[]) => {
    const missing = expected.filter((name) => !found.includes(name));
    const list = (names: readonly string[]) => `[${names.slice(0, 32).map(quoteName).join(",")}]`;
    const missingText =
      missing.length === 0
        ? ""
        : `, but missing required input(s) ${list(missing)}. Please provide all required input(s)`;
    return makeError(
      "invalid_tensor",
      `expected ${expected.length} inputs but got ${found.length} inputs for model ${quoteName(model)}. Got input(s) ${list(found)}${missingText}.`,
      { remedy: `See GET /v2/models/${model} for the inputs.` },
    );
  },
  unclassifiable: (output: string, datatype: string, shape: readonly number[]) =>
    makeError(
      "invalid_tensor",
      `class result not available for output due to unsupported type '${datatype}': ${quoteName(output)} of shape ${dimensions(shape)}.`,
      { remedy: "Request its values instead." },
    ),
  repeatedTensor: (kind: "input" | "output", name: string) =>
    makeError("invalid_tensor", `${kind} ${quoteName(name)} already exists in request.`, {
      remedy: "Name each tensor once.",
    }),
  unexpectedInput: (model: string, input: string) =>
    makeError(
      "invalid_tensor",
      `unexpected inference input ${quoteName(input)} for model ${quoteName(model)}.`,
      { values: { model } },
    ),
  unexpectedOutput: (model: string, output: string) =>
    makeError(
      "invalid_tensor",
      `unexpected inference output ${quoteName(output)} for model ${quoteName(model)}.`,
      { remedy: `See GET /v2/models/${model} for the outputs.` },
    ),
  wrongDatatype: (model: string, input: string, found: string, expected: string) =>
    makeError(
      "invalid_tensor",
      `inference input ${quoteName(input)} data-type is '${found}', but model ${quoteName(model)} expects '${expected}'.`,
      { values: { model } },
    ),
  wrongShape: (
    model: string,
    input: string,
    found: readonly number[],
    expected: readonly number[],
  ) =>
    makeError(
      "invalid_tensor",
      `unexpected shape for input ${quoteName(input)} for model ${quoteName(model)}. Expected ${dimensions(expected)}, got ${dimensions(found)}.`,
      {
        remedy:
          "Send the expected shape: -1 accepts any size, and the first dimension is the batch if the model has one.",
      },
    ),
  rawNeedsOneInput: (inputs: number, model?: string) =>
    makeError(
      "invalid_request",
      `Raw request must only have 1 input to be deduced but got ${inputs} inputs${model === undefined ? "" : ` in ${quoteName(model)} model configuration`}.`,
      { remedy: "Name the inputs in a JSON header." },
    ),
  rawShapeUnknown: (input: string) =>
    makeError(
      "invalid_tensor",
      `The shape of the raw input ${quoteName(input)} can not be deduced because there are more than one variable-sized dimension.`,
      { remedy: "Give the shape in a JSON header." },
    ),
  reservedParameter: (name: string) =>
    makeError(
      "invalid_request",
      `parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified: ${quoteName(name)}.`,
      { remedy: "Omit it." },
    ),
} as const;
