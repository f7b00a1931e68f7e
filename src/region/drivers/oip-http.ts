// RegionClient over HTTP: the Open Inference Protocol v2 with binary tensors, for any region server that serves EdgeTier's models.

import { regionErrors } from "../errors.ts";
import { EdgeTierError, reasonOf, shown } from "../../core/errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import { toMessageHeaders as messageHeaders } from "../../protocol/open-inference-http.ts";
import {
  LOAD_REPORT_FORMAT_HEADER,
  LOAD_REPORT_HEADER,
  parseLoadReport,
} from "../../protocol/load-report.ts";
import {
  decodeInferResponse,
  encodeInferRequest,
  type InferMessage,
  JSON_LENGTH_HEADER,
} from "../../protocol/open-inference.ts";
import { TASK_INPUT_NAME } from "../../tasks/task.ts";
import { readLimited } from "../../core/read-limited.ts";
import {
  type RegionCall,
  type RegionClient,
  type RegionFailure,
  classifyRegionStatus,
} from "../region-client.ts";
import { plainFetch, type RegionFetch } from "../signed-fetch.ts";

export interface OipHttpOptions {
  /** Of the region server, without `/v2`; a trailing slash does not matter. */
  readonly baseUrl: string;
  /** For one that signs: signed-fetch.ts. */
  readonly fetch?: RegionFetch;
  /** An answer larger than this is not read. */
  readonly maxResponseBytes?: number;
}

interface TierCall extends RegionCall {
  readonly tier: string;
}

const READY_TIMEOUT_MS = 2_000;
/** Headers of an answer that are the client's business. */
const FORWARDED_HEADERS = ["content-type", JSON_LENGTH_HEADER, "retry-after"];
/** Of an error's body; its text goes into a log line. */
const MAX_ERROR_BYTES = 4_096;

export function createOipHttpRegionClient(options: OipHttpOptions): RegionClient {
  const { fetch: send = plainFetch, maxResponseBytes = 16_777_216 } = options;
  const baseUrl = options.baseUrl.replace(/\/+$/, "");

  const urlOf = ({ model, version }: Pick<RegionCall, "model" | "version">, action: string) =>
    `${baseUrl}/v2/models/${encodeURIComponent(model)}/versions/${version}/${action}`;

  /** @throws region_unavailable */
  async function post(
    call: RegionCall,
    body: Uint8Array<ArrayBuffer>,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Response> {
    try {
      const response = await send(urlOf(call, "infer"), {
        method: "POST",
        headers: { ...headers, ...requestHeaders(call) },
        body,
        signal,
        redirect: "manual",
      });
      call.onLoadReport?.(parseLoadReport(response.headers.get(LOAD_REPORT_HEADER)));
      return response;
    } catch (error) {
      throw toRegionError("unreached", error, call, signal);
    }
  }

  async function saysYes(url: string, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      const response = await send(url, {
        method: "GET",
        signal: withTimeout(READY_TIMEOUT_MS, signal),
        redirect: "manual",
      });
      await response.body?.cancel();
      return response.status === 200;
    } catch {
      return false;
    }
  }

  /** @returns what a tier gives for these rows @throws region_unavailable, region_refused */
  async function ask(
    call: TierCall,
    inputs: NamedTensors,
    rows: number,
    caller: AbortSignal | undefined,
  ): Promise<NamedTensors> {
    const signal = withTimeout(call.timeoutMs, caller);
    const message = encodeMessage(call, inputs);
    const response = await post(call, message.body, messageHeaders(message), signal);
    try {
      if (response.status !== 200) throw await toRejectionError(response);
      const bytes = await readLimited(response.body, maxResponseBytes);
      if (bytes === undefined)
        throw unavailable("unreadable", `its answer is larger than ${maxResponseBytes} bytes`);
      return requireRowCount(decodeResponse(bytes, response.headers.get(JSON_LENGTH_HEADER)), rows);
    } catch (error) {
      throw error instanceof EdgeTierError
        ? error
        : toRegionError("unreadable", error, call, signal);
    }
  }

  return {
    infer: ({ inputs, ...call }, signal) =>
      ask(
        call,
        { [TASK_INPUT_NAME]: { datatype: "BYTES", shape: [inputs.length], data: inputs } },
        inputs.length,
        signal,
      ),
    resume: ({ tensors, rows, ...call }, signal) => ask(call, tensors, rows, signal),

    async forward(request, signal) {
      const response = await post(
        request,
        request.body,
        request.headers,
        withTimeout(request.timeoutMs, signal),
      );
      if (!isProtocolResponse(response)) throw await toRejectionError(response);
      const headers = FORWARDED_HEADERS.map(
        (name) => [name, response.headers.get(name)] as const,
      ).filter((pair): pair is [string, string] => pair[1] !== null);
      return new Response(response.body, { status: response.status, headers });
    },

    isReady: (signal) => saysYes(`${baseUrl}/v2/health/ready`, signal),
    isModelReady: (model, version, signal) => saysYes(urlOf({ model, version }, "ready"), signal),
  };
}

/** And not that of something on the way: refusals are JSON, too. */
function isProtocolResponse({ status, headers }: Response): boolean {
  if (status === 401) return false;
  return (
    status === 200 ||
    (status >= 400 && headers.get("content-type")?.startsWith("application/json") === true)
  );
}

function encodeMessage(
  { tier, timeoutMs, requestId }: TierCall,
  inputs: NamedTensors,
): InferMessage {
  const parameters = {
    tier,
    timeout: Math.max(1, Math.floor(timeoutMs * 1_000)),
    binary_data_output: true,
  };
  return encodeInferRequest({ id: requestId, parameters, inputs }, true);
}

function requestHeaders({
  requestId,
  span,
  timeoutMs,
  onLoadReport: onLoad,
}: RegionCall): Record<string, string> {
  return {
    // What is forwarded is passed on as it comes; what is decoded here is binary, and compresses badly.
    "accept-encoding": "identity",
    "x-request-id": requestId,
    "x-deadline-ms": String(Math.max(1, Math.floor(timeoutMs))),
    ...span?.headers,
    ...(onLoad === undefined ? {} : { [LOAD_REPORT_FORMAT_HEADER]: "text" }),
  };
}

function withTimeout(timeoutMs: number, signal: AbortSignal | undefined): AbortSignal {
  const timeout = AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs)));
  return signal === undefined ? timeout : AbortSignal.any([signal, timeout]);
}

const unavailable = (failure: RegionFailure, reason: string, cause?: unknown): EdgeTierError =>
  regionErrors.regionUnavailable(reason, cause, { failure });

function toRegionError(
  failure: RegionFailure,
  error: unknown,
  { timeoutMs }: RegionCall,
  { aborted, reason }: AbortSignal,
): EdgeTierError {
  if (!aborted) return unavailable(failure, reasonOf(error), error);
  const isTooLate = reason instanceof DOMException && reason.name === "TimeoutError"; // else the caller has ended it
  return unavailable(
    "timed_out",
    isTooLate ? `no answer within ${Math.ceil(timeoutMs)} ms` : reasonOf(error),
    error,
  );
}

async function toRejectionError(response: Response): Promise<EdgeTierError> {
  const { status } = response;
  const reason = shown(await errorText(response), 300);
  const kind = classifyRegionStatus(status);
  return kind === undefined && status >= 400 && status < 500
    ? regionErrors.regionRefused(status, reason)
    : unavailable(kind ?? "unreadable", `status ${status}, ${reason}`);
}

/** The protocol's `{"error": "…"}`, or whatever something on the way has answered instead. */
async function errorText(response: Response): Promise<string> {
  const bytes = await readLimited(response.body, MAX_ERROR_BYTES).catch(() => undefined);
  const text = new TextDecoder().decode(bytes);
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null && "error" in body ? String(body.error) : text;
  } catch {
    return text;
  }
}

function decodeResponse(bytes: Uint8Array, jsonLength: string | null): NamedTensors {
  try {
    return decodeInferResponse(bytes, jsonLength === null ? undefined : Number(jsonLength)).outputs;
  } catch (error) {
    throw unavailable("unreadable", `its answer cannot be read (${reasonOf(error)})`, error);
  }
}

function requireRowCount(outputs: NamedTensors, rows: number): NamedTensors {
  const names = Object.keys(outputs);
  if (names.length === 0) throw unavailable("unreadable", "its answer has no outputs");
  const wrong = names.find((name) => outputs[name]?.shape[0] !== rows);
  if (wrong !== undefined)
    throw unavailable("unreadable", `its output ${shown(wrong)} does not have ${rows} rows`);
  return outputs;
}
