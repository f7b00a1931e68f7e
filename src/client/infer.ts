// Tensors in, tensors out, over the Open Inference Protocol: at the edge, or at the nearest region that may be asked directly.

import { concatBytes } from "../core/bytes.ts";
import type { NamedTensors, Tensor } from "../core/tensor.ts";
import type { Parameters, RequestedOutput } from "../protocol/open-inference.ts";
import { decodeTensors, encodeTensors, type TensorHeader } from "./binary-tensors.ts";
import {
  type CallOptions,
  type Connection,
  endsAtMsOf,
  type OutgoingRequest,
  parseJsonText,
  send,
} from "./connection.ts";
import { EdgeTierError, clientError } from "./errors.ts";
import type { Regions } from "./region-selector.ts";
import { fromUtf8, toUtf8 } from "./utf8.ts";

export type { NamedTensors, Tensor };

export interface InferOptions extends CallOptions {
  /** All where it is left out. */
  readonly outputs?: readonly RequestedOutput[] | undefined;
  /** Such as `tier`: the one tier to ask. */
  readonly parameters?: Parameters | undefined;
  /** Asked first, the nearest that can be; the edge answers where none does. */
  readonly regions?: Regions | undefined;
}

export interface Inference {
  readonly model: string;
  readonly version: string | undefined;
  readonly outputs: NamedTensors;
  readonly parameters: Parameters;
  /** Id of the region that was asked directly. */
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
 * @param model `name`, `name@version` or `name@alias`; of aliases, a region knows only `stable`, so that others are the edge's to answer
 * @throws EdgeTierError, or the reason of the caller's signal
 */
export async function infer(
  connection: Connection,
  model: string,
  inputs: NamedTensors,
  options: InferOptions = {},
): Promise<Inference> {
  const [name = "", version] = model.split("@");
  const isNumbered = version !== undefined && /^\d+$/.test(version);
  const outgoing = encodeInferMessage(inputs, options);
  const regionPath = `/v2/models/${encodeURIComponent(name)}${isNumbered ? `/versions/${version}` : ""}/infer`;

  const endsAtMs = endsAtMsOf(connection, options);
  if (version === undefined || isNumbered) {
    const region = await options.regions?.nearest(connection, options);
    const leftMs = endsAtMs - connection.clock.now();
    if (region !== undefined) {
      // Half of the time is left for the edge; the edge's credentials are no region's business.
      const { authorization: _credentials, ...headers } = connection.headers;
      try {
        return await callInfer(
          { ...connection, url: region.url, headers },
          regionPath,
          outgoing,
          region.id,
          { ...options, deadlineMs: leftMs / 2, retries: 0 },
        );
      } catch (error) {
        if (
          options.signal?.aborted === true ||
          !(error instanceof EdgeTierError) ||
          isInvalidRequest(error)
        )
          throw error;
        options.regions?.leaveAlone(region.id);
      }
    }
  }
  const leftMs = endsAtMs - connection.clock.now();
  const isBounded = (options.deadlineMs ?? connection.deadlineMs) !== undefined;
  return await callInfer(
    connection,
    `/v2/models/${encodeURIComponent(model)}/infer`,
    outgoing,
    undefined,
    { ...options, ...(isBounded ? { deadlineMs: leftMs } : { timeoutMs: leftMs }) },
  );
}

/** The edge would refuse it as well; 401 to 404 may be the region's own trouble. */
const isInvalidRequest = ({ status }: EdgeTierError): boolean =>
  status === 400 || status === 413 || status === 415;

function encodeInferMessage(
  inputs: NamedTensors,
  { outputs, parameters }: InferOptions,
): OutgoingRequest {
  const { heads, bytes } = encodeTensors(inputs);
  const json = toUtf8(
    JSON.stringify({
      inputs: heads,
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
  return send(
    connection,
    path,
    outgoing,
    async (response) => {
      const body = new Uint8Array(await response.arrayBuffer());
      const jsonBytes = Number(response.headers.get(JSON_LENGTH_HEADER) ?? body.byteLength);
      const head = parseJsonText<InferResponseHeader>(fromUtf8(body.subarray(0, jsonBytes)));
      if (head.outputs === undefined)
        throw clientError(
          "invalid_answer",
          "The answer has no outputs.",
          "Check that the address is an EdgeTier edge's.",
        );
      return {
        model: head.model_name,
        version: head.model_version,
        parameters: head.parameters ?? {},
        outputs: decodeTensors(head.outputs, body.subarray(jsonBytes)),
        region,
      };
    },
    call,
  );
}
