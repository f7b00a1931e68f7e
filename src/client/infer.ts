// Tensor inference by the Open Inference Protocol, at the edge or directly at the nearest region with a public address.

import { concatBytes } from "../core/bytes.ts";
import type { NamedTensors, Tensor } from "../core/tensor.ts";
import type { Parameters, RequestedOutput } from "../protocol/open-inference.ts";
import { decodeTensors, encodeTensors, type TensorHeader } from "./binary-tensors.ts";
import {
  type CallOptions,
  type Connection,
  computeCallEndMs,
  type OutgoingRequest,
  parseJsonText,
  send,
} from "./connection.ts";
import type { Regions } from "./deprecated.ts";
import { EdgeTierError, clientError } from "./errors.ts";
import type { RegionSelector } from "./region-selector.ts";
import { withCurrentNames } from "./renamed-options.ts";
import { fromUtf8, toUtf8 } from "./utf8.ts";

export type { NamedTensors, Tensor };

/**
 * Options of {@link infer}.
 *
 * @example
 * import { connect, infer, type InferOptions } from "edgetier/client";
 *
 * const options: InferOptions = { outputs: [{ name: "y" }], parameters: { tier: "region" } };
 * const inputs = { x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(1, 2) } } as const;
 * await infer(connect({ url: "https://predict.example.com" }), "matmul", inputs, options);
 */
export interface InferOptions extends CallOptions {
  /** Outputs of the response; defaults to all. */
  readonly outputs?: readonly RequestedOutput[] | undefined;
  /** Parameters of the request, such as `tier`: the only tier to run. */
  readonly parameters?: Parameters | undefined;
  /** Selects a region, which is called first. The edge is called if there is none, or its call fails. */
  readonly regions?: RegionSelector | Regions | undefined;
}

/**
 * Result of {@link infer}.
 *
 * @example
 * import { connect, infer, type Inference } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const inputs = { x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(1, 2) } } as const;
 * const { outputs, region }: Inference = await infer(connection, "matmul", inputs);
 */
export interface Inference {
  readonly model: string;
  readonly version: string | undefined;
  readonly outputs: NamedTensors;
  readonly parameters: Parameters;
  /** Id of the region that was called directly; undefined for the edge. */
  readonly region: string | undefined;
}

interface InferResponseHeader {
  readonly model_name: string;
  readonly model_version?: string;
  readonly parameters?: Parameters;
  readonly outputs: readonly TensorHeader[];
}

const JSON_LENGTH_HEADER = "inference-header-content-length";

/**
 * Runs a model on tensors. Tensors cross the network in binary.
 *
 * @param model `name`, `name@version` or `name@alias`. Regions resolve only the alias `stable`, so that other aliases
 * are resolved by the edge.
 * @throws EdgeTierError, or the reason of the caller's signal
 * @example
 * import { connect, infer } from "edgetier/client";
 *
 * const connection = connect({ url: "https://predict.example.com" });
 * const { outputs } = await infer(connection, "matmul", {
 *   x: { datatype: "FP32", shape: [1, 2], data: Float32Array.of(1, 2) },
 * });
 */
export async function infer(
  connection: Connection,
  model: string,
  inputs: NamedTensors,
  options: InferOptions = {},
): Promise<Inference> {
  const call = withCurrentNames(options);
  const outgoing = encodeInferMessage(inputs, call);
  const callEndMs = computeCallEndMs(connection, call);
  const inference = await inferAtRegion(connection, model, outgoing, call, callEndMs);
  if (inference !== undefined) return inference;
  const remainingMs = callEndMs - connection.clock.now();
  const hasDeadline = (call.deadlineMs ?? connection.deadlineMs) !== undefined;
  return await callInfer(
    connection,
    `/v2/models/${encodeURIComponent(model)}/infer`,
    outgoing,
    undefined,
    { ...call, ...(hasDeadline ? { deadlineMs: remainingMs } : { timeoutMs: remainingMs }) },
  );
}

/** @returns undefined if no region is available, or its call failed */
async function inferAtRegion(
  connection: Connection,
  model: string,
  outgoing: OutgoingRequest,
  call: InferOptions,
  callEndMs: number,
): Promise<Inference | undefined> {
  const [name = "", version] = model.split("@");
  const isNumbered = version !== undefined && /^\d+$/.test(version);
  if (version !== undefined && !isNumbered) return undefined;
  const region = await call.regions?.nearest(connection, call);
  if (region === undefined) return undefined;
  const path = `/v2/models/${encodeURIComponent(name)}${isNumbered ? `/versions/${version}` : ""}/infer`;
  // Half of the remaining time is reserved for the edge. The edge's credentials are never sent to a region.
  const deadlineMs = (callEndMs - connection.clock.now()) / 2;
  const { authorization: _credentials, ...headers } = connection.headers;
  try {
    return await callInfer({ ...connection, url: region.url, headers }, path, outgoing, region.id, {
      ...call,
      deadlineMs,
      maxRetries: 0,
    });
  } catch (error) {
    if (
      call.signal?.aborted === true ||
      !(error instanceof EdgeTierError) ||
      isInvalidRequest(error)
    )
      throw error;
    markFailed(call.regions, region.id);
    return undefined;
  }
}

function markFailed(regions: InferOptions["regions"], id: string): void {
  if (regions === undefined) return;
  if ("markFailed" in regions) regions.markFailed(id);
  else regions.leaveAlone(id);
}

/** The edge would reject such a request too. A status from 401 to 404 may be a fault of the region alone. */
const isInvalidRequest = ({ status }: EdgeTierError): boolean =>
  status === 400 || status === 413 || status === 415;

function encodeInferMessage(
  inputs: NamedTensors,
  { outputs, parameters }: InferOptions,
): OutgoingRequest {
  const { headers, bytes } = encodeTensors(inputs);
  const json = toUtf8(
    JSON.stringify({
      inputs: headers,
      outputs,
      parameters: { ...parameters, binary_data_output: true },
    }),
  );
  return {
    method: "POST",
    headers: {
      "content-type": "application/octet-stream",
      [JSON_LENGTH_HEADER]: String(json.byteLength),
    },
    body: concatBytes([json, ...bytes]),
  };
}

function callInfer(
  connection: Connection,
  path: string,
  outgoing: OutgoingRequest,
  region: string | undefined,
  call: CallOptions,
): Promise<Inference> {
  const read = async (response: Response): Promise<Inference> => {
    const body = new Uint8Array(await response.arrayBuffer());
    const jsonBytes = Number(response.headers.get(JSON_LENGTH_HEADER) ?? body.byteLength);
    const header = parseJsonText<InferResponseHeader>(fromUtf8(body.subarray(0, jsonBytes)));
    if (header.outputs === undefined)
      throw clientError(
        "invalid_answer",
        "The response has no outputs.",
        "Check that the address is an EdgeTier edge's.",
      );
    return {
      model: header.model_name,
      version: header.model_version,
      parameters: header.parameters ?? {},
      outputs: decodeTensors(header.outputs, body.subarray(jsonBytes)),
      region,
    };
  };
  return send(connection, path, outgoing, read, call);
}
