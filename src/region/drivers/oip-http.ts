// RegionClient over HTTP: Open Inference Protocol v2 with binary tensors, for any server of EdgeTier's models.

import { EdgeTierError, reasonOf, formatValue } from "../../core/errors.ts";
import { readLimited } from "../../core/read-limited.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import {
  LOAD_REPORT_FORMAT_HEADER,
  LOAD_REPORT_HEADER,
  parseLoadReport,
} from "../../protocol/load-report.ts";
import { toMessageHeaders } from "../../protocol/open-inference-http.ts";
import {
  decodeInferResponse,
  encodeInferRequest,
  type InferMessage,
  JSON_LENGTH_HEADER,
} from "../../protocol/open-inference.ts";
import { TASK_INPUT_NAME } from "../../tasks/task.ts";
import { regionErrors } from "../errors.ts";
import {
  type ForwardedRequest,
  type RegionCall,
  type RegionClient,
  type RegionFailure,
  type ResumeRequest,
  classifyRegionStatus,
} from "../region-client.ts";
import { plainFetch, type RegionFetch } from "../signed-fetch.ts";

export interface OipHttpOptions {
  /** Base URL of the region server, without `/v2`. A trailing slash is allowed. */
  readonly baseUrl: string;
  /** Fetch function, for example a signing one (signed-fetch.ts). */
  readonly fetch?: RegionFetch;
  /** Maximum response size; a larger response is discarded. */
  readonly maxResponseBytes?: number;
}

interface TierCall extends RegionCall {
  readonly tier: string;
}

const READY_TIMEOUT_MS = 2_000;
/** Response headers that are forwarded to the client. */
const FORWARDED_HEADERS = ["content-type", JSON_LENGTH_HEADER, "retry-after"];
/** Maximum size of an error body, whose text goes into a log line. */
const MAX_ERROR_BYTES = 4_096;

interface Transport {
  readonly send: RegionFetch;
  readonly baseUrl: string;
  readonly maxResponseBytes: number;
}

export function createOipHttpRegionClient(options: OipHttpOptions): RegionClient {
  const { fetch: send = plainFetch, maxResponseBytes = 16_777_216 } = options;
  const baseUrl = options.baseUrl.replace(/\/+$/, "");
  const transport: Transport = { send, baseUrl, maxResponseBytes };

  return {
    infer: ({ inputs, ...call }, signal) =>
      inferTensors(
        transport,
        call,
        {
          tensors: {
            [TASK_INPUT_NAME]: { datatype: "BYTES", shape: [inputs.length], data: inputs },
          },
          rows: inputs.length,
        },
        signal,
      ),
    resume: ({ tensors, rows, ...call }, signal) =>
      inferTensors(transport, call, { tensors, rows }, signal),

    async forward(request, signal) {
      const response = await post(
        transport,
        request,
        { body: request.body, headers: request.headers },
        withTimeout(request.timeoutMs, signal),
      );
      if (!isProtocolResponse(response)) throw await toRejectionError(response);
      const headers = FORWARDED_HEADERS.map(
        (name) => [name, response.headers.get(name)] as const,
      ).filter((pair): pair is [string, string] => pair[1] !== null);
      return new Response(response.body, { status: response.status, headers });
    },

    isReady: (signal) => respondsOk(transport, `${baseUrl}/v2/health/ready`, signal),
    isModelReady: (model, version, signal) =>
      respondsOk(transport, modelUrl(transport, { model, version }, "ready"), signal),
  };
}

const modelUrl = (
  { baseUrl }: Transport,
  { model, version }: Pick<RegionCall, "model" | "version">,
  action: string,
): string => `${baseUrl}/v2/models/${encodeURIComponent(model)}/versions/${version}/${action}`;

/** @throws region_unavailable */
async function post(
  transport: Transport,
  call: RegionCall,
  { body, headers }: Pick<ForwardedRequest, "body" | "headers">,
  signal: AbortSignal,
): Promise<Response> {
  try {
    const response = await transport.send(modelUrl(transport, call, "infer"), {
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

async function respondsOk(
  { send }: Transport,
  url: string,
  signal: AbortSignal | undefined,
): Promise<boolean> {
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

/** @returns the tier's outputs for these rows @throws region_unavailable, region_refused */
async function inferTensors(
  transport: Transport,
  call: TierCall,
  { tensors, rows }: Pick<ResumeRequest, "tensors" | "rows">,
  callerSignal: AbortSignal | undefined,
): Promise<NamedTensors> {
  const { maxResponseBytes } = transport;
  const signal = withTimeout(call.timeoutMs, callerSignal);
  const message = encodeMessage(call, tensors);
  const request = { body: message.body, headers: toMessageHeaders(message) };
  const response = await post(transport, call, request, signal);
  try {
    if (response.status !== 200) throw await toRejectionError(response);
    const bytes = await readLimited(response.body, maxResponseBytes);
    if (bytes === undefined)
      throw unavailable("unreadable", `its answer is larger than ${maxResponseBytes} bytes`);
    return requireRowCount(decodeResponse(bytes, response.headers.get(JSON_LENGTH_HEADER)), rows);
  } catch (error) {
    throw error instanceof EdgeTierError ? error : toRegionError("unreadable", error, call, signal);
  }
}

/** Distinguishes the region's responses from those of an intermediary; the region's rejections are JSON, too. */
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
  onLoadReport,
}: RegionCall): Record<string, string> {
  return {
    // A forwarded body is passed on unchanged. A decoded body is binary and compresses badly.
    "accept-encoding": "identity",
    "x-request-id": requestId,
    "x-deadline-ms": String(Math.max(1, Math.floor(timeoutMs))),
    ...span?.headers,
    ...(onLoadReport === undefined ? {} : { [LOAD_REPORT_FORMAT_HEADER]: "text" }),
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
  // Any other reason means that the caller aborted the call.
  const isTimeout = reason instanceof DOMException && reason.name === "TimeoutError";
  return unavailable(
    "timed_out",
    isTimeout ? `no answer within ${Math.ceil(timeoutMs)} ms` : reasonOf(error),
    error,
  );
}

async function toRejectionError(response: Response): Promise<EdgeTierError> {
  const { status } = response;
  const reason = formatValue(await errorText(response), 300);
  const failure = classifyRegionStatus(status);
  return failure === undefined && status >= 400 && status < 500
    ? regionErrors.regionRefused(status, reason)
    : unavailable(failure ?? "unreadable", `status ${status}, ${reason}`);
}

/** Reads the protocol's `{"error": "…"}`, or the plain text of an intermediary's response. */
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
  const mismatched = names.find((name) => outputs[name]?.shape[0] !== rows);
  if (mismatched !== undefined)
    throw unavailable(
      "unreadable",
      `its output ${formatValue(mismatched)} does not have ${rows} rows`,
    );
  return outputs;
}
