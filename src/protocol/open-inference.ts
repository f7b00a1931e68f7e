// Open Inference Protocol v2: encodes and decodes infer requests and responses, and defines metadata. Edge and region
// share it. https://github.com/kserve/open-inference-protocol
//
// A body is JSON, or JSON followed by tensor data as bytes (the binary tensor data extension). In the second case, the
// header `Inference-Header-Content-Length` has the number of JSON bytes.

import * as z from "zod";
import { concatBytes } from "../core/bytes.ts";
import { DATATYPES, type NamedTensors, type TensorSpec, typedArrays } from "../core/tensor.ts";
import { decodeBinaryTensor } from "./binary-tensors.ts";
import { protocolErrors } from "./errors.ts";
import { boundedArray, parametersSchema, parseMessage } from "./message-schema.ts";
import { decodeWireTensors, rejectDuplicate, encodeWireTensors } from "./message-tensors.ts";

export type Parameters = Readonly<Record<string, string | number | boolean>>;

export interface InferRequest {
  /** Echoed in the response. */
  readonly id?: string | undefined;
  readonly parameters?: Parameters;
  readonly inputs: NamedTensors;
  /** Outputs of the response, in this order; defaults to all outputs. */
  readonly outputs?: readonly RequestedOutput[] | undefined;
}

export interface RequestedOutput {
  readonly name: string;
  readonly parameters?: Parameters;
}

/** An encoded message. */
export interface InferMessage {
  readonly body: Uint8Array<ArrayBuffer>;
  /** Number of JSON bytes at the start; undefined if the whole body is JSON. */
  readonly jsonBytes: number | undefined;
}

/** Name of the HTTP header for `InferMessage.jsonBytes`. */
export const JSON_LENGTH_HEADER = "inference-header-content-length";

export interface InferResponse {
  readonly model: string;
  readonly version?: string | undefined;
  readonly id?: string | undefined;
  readonly parameters?: Parameters;
  readonly outputs: NamedTensors;
}

/** Response of `GET /v2/models/{model}`; -1 is a variable dimension. */
export interface ModelMetadata {
  readonly name: string;
  readonly versions: readonly string[];
  readonly platform: string;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

/** Response of `GET /v2`. */
export interface ServerMetadata {
  readonly name: string;
  readonly version: string;
  readonly extensions: readonly string[];
}

const MAX_TENSORS = 256;
const MAX_RANK = 32;

const tensorFieldSchemas = {
  name: z.string().min(1).max(256),
  shape: boundedArray(
    z.int("must be an integer below 2^53").min(0, "must not be negative"),
    MAX_RANK,
  ),
  datatype: z.enum(DATATYPES, `must be one of ${DATATYPES.join(", ")}`),
  parameters: parametersSchema,
  data: z.unknown().optional(),
};

const requestSchema = z.object({
  id: z.string().max(1024).nullish(),
  parameters: parametersSchema,
  // The objects are strict, because an unknown field may contain the tensor's data in an unsupported form.
  inputs: boundedArray(z.strictObject(tensorFieldSchemas), MAX_TENSORS),
  outputs: boundedArray(
    z.object({ name: tensorFieldSchemas.name, parameters: parametersSchema }),
    MAX_TENSORS,
  ).nullish(),
});

const responseSchema = z.object({
  model_name: z.string(),
  model_version: z.string().nullish(),
  id: z.string().nullish(),
  parameters: parametersSchema,
  outputs: boundedArray(z.object(tensorFieldSchemas), MAX_TENSORS),
});

/**
 * @param jsonBytes number of JSON bytes in the body; undefined for the whole body
 * @param model name for error messages
 * @throws invalid_utf8, invalid_json, invalid_request, invalid_tensor, unsupported
 */
export function decodeInferRequest(
  body: Uint8Array,
  jsonBytes?: number,
  model?: string,
): InferRequest {
  const { json, binary } = splitBody(body, jsonBytes);
  const message = parseMessage(requestSchema, json);
  const outputs = message.outputs ?? [];
  outputs.forEach((output, index) => rejectDuplicate("output", outputs, output.name, index));
  return {
    id: message.id ?? undefined,
    parameters: message.parameters,
    inputs: decodeWireTensors(message.inputs, binary, model),
    outputs: outputs.length > 0 ? outputs : undefined,
  };
}

/**
 * Decodes a raw binary request (`Inference-Header-Content-Length: 0`), whose body is one row of the model's only input.
 * Its outputs are returned as bytes.
 * @param model name for error messages
 * @throws invalid_request if the model has several inputs; invalid_tensor if the bytes do not fill a row
 */
export function decodeRawInferRequest(
  body: Uint8Array,
  specs: readonly TensorSpec[],
  model?: string,
): InferRequest {
  const [spec] = specs;
  if (spec === undefined || specs.length > 1)
    throw protocolErrors.rawNeedsOneInput(specs.length, model);
  const { name, datatype } = spec;
  const parameters = { binary_data_output: true };
  if (datatype === "BYTES")
    return {
      parameters,
      inputs: {
        [name]: { datatype, shape: spec.shape.map(() => 1), data: [new Uint8Array(body)] },
      },
    };
  // The number of bytes determines one open dimension at most.
  const shape = spec.shape.map((dimension, axis) =>
    axis === 0 && dimension === -1 ? 1 : dimension,
  );
  const knownBytes = shape
    .filter((dimension) => dimension !== -1)
    .reduce((product, dimension) => product * dimension, typedArrays[datatype].BYTES_PER_ELEMENT);
  if (shape.indexOf(-1) !== shape.lastIndexOf(-1)) throw protocolErrors.rawShapeUnknown(name);
  const deducedShape = shape.map((dimension) =>
    dimension === -1 ? Math.floor(body.byteLength / Math.max(knownBytes, 1)) : dimension,
  );
  return {
    parameters,
    inputs: { [name]: decodeBinaryTensor(name, datatype, deducedShape, body, model) },
  };
}

/** @throws the same codes as `decodeInferRequest` */
export function decodeInferResponse(body: Uint8Array, jsonBytes?: number): InferResponse {
  const { json, binary } = splitBody(body, jsonBytes);
  const message = parseMessage(responseSchema, json);
  return {
    model: message.model_name,
    version: message.model_version ?? undefined,
    id: message.id ?? undefined,
    parameters: message.parameters,
    outputs: decodeWireTensors(message.outputs, binary),
  };
}

/** Returns whether the client requested this output's data as bytes. */
export function wantsBinaryOutput({ parameters, outputs }: InferRequest, output: string): boolean {
  const requested = outputs?.find(({ name }) => name === output)?.parameters?.["binary_data"];
  return (requested ?? parameters?.["binary_data_output"]) === true;
}

/** @param binary sends the tensors' data as bytes @throws invalid_tensor for a tensor without a JSON form */
export function encodeInferRequest(request: InferRequest, binary = false): InferMessage {
  const { id, parameters, inputs, outputs } = request;
  const encoded = encodeWireTensors(inputs, () => binary);
  return encodeMessage({ id, parameters, inputs: encoded.messages, outputs }, encoded.binary);
}

/** @param isBinary selects the outputs sent as bytes @throws invalid_tensor for a tensor without a JSON form */
export function encodeInferResponse(
  response: InferResponse,
  isBinary: (output: string) => boolean = () => false,
): InferMessage {
  const { model, version, id, parameters, outputs } = response;
  const encoded = encodeWireTensors(outputs, isBinary);
  return encodeMessage(
    { model_name: model, model_version: version, id, parameters, outputs: encoded.messages },
    encoded.binary,
  );
}

function encodeMessage(message: object, binary: readonly Uint8Array[]): InferMessage {
  const json = new TextEncoder().encode(JSON.stringify(message));
  if (binary.length === 0) return { body: json, jsonBytes: undefined };
  return { body: concatBytes([json, ...binary]), jsonBytes: json.byteLength };
}

function splitBody(
  body: Uint8Array,
  jsonBytes = body.byteLength,
): { readonly json: Uint8Array; readonly binary: Uint8Array } {
  if (jsonBytes > body.byteLength)
    throw protocolErrors.jsonLengthOutOfRange(jsonBytes, body.byteLength);
  return { json: body.subarray(0, jsonBytes), binary: body.subarray(jsonBytes) };
}
