// Edge client: sends requests to the deployed edge, pinned to the Worker version that was deployed last.

import * as z from "zod";
import { type EdgeTierError, reasonOf } from "../../core/errors.ts";
import { tryParseJson } from "../../core/json.ts";
import { cliErrors } from "../errors.ts";

const TIMEOUT_MS = 30_000;
const problemSchema = z.object({
  code: z.string().optional(),
  detail: z.string().optional(),
  error: z.string().optional(),
  remedy: z.string().optional(),
});

export interface EdgeResponse {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed JSON. Undefined if the body is not JSON. */
  readonly body: unknown;
}

export interface EdgeClient {
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Headers of every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** @throws edge_unreachable */
  get(path: string): Promise<EdgeResponse>;
  /** Sends JSON. @throws edge_unreachable; the error of a response other than 200 */
  post(path: string, body: unknown): Promise<EdgeResponse>;
  /** Sends JSON and returns the response of any status. @throws edge_unreachable */
  postUnchecked(path: string, body: unknown): Promise<EdgeResponse>;
}

interface EdgeClientOptions {
  readonly apiKey: string | undefined;
  /** Id of the Worker's version to which Cloudflare routes requests while a deployment propagates. */
  readonly version: string | undefined;
}

/** Creates a client of a deployed edge. */
export function createEdgeClient(
  url: string,
  worker: string,
  { apiKey, version }: EdgeClientOptions,
): EdgeClient {
  const headers =
    version === undefined
      ? {}
      : { "cloudflare-workers-version-overrides": `${worker}="${version}"` };
  const send = async (path: string, init: RequestInit = {}) =>
    await sendRequest(url, path, {
      ...init,
      headers: {
        ...headers,
        "content-type": "application/json",
        ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
      },
    });
  const postUnchecked = async (path: string, body: unknown) =>
    await send(path, { method: "POST", body: JSON.stringify(body) });
  return {
    url,
    apiKey,
    headers,
    get: (path) => send(path),
    postUnchecked,
    async post(path, body) {
      const response = await postUnchecked(path, body);
      if (response.status !== 200) throw toError(path, response);
      return response;
    },
  };
}

async function sendRequest(url: string, path: string, init: RequestInit): Promise<EdgeResponse> {
  try {
    const response = await fetch(`${url}${path}`, {
      ...init,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const body = tryParseJson(await response.text());
    return { status: response.status, headers: response.headers, body };
  } catch (error) {
    throw cliErrors.edgeUnreachable(
      url,
      error instanceof Error && error.cause instanceof Error
        ? reasonOf(error.cause)
        : reasonOf(error),
      error,
    );
  }
}

function toError(path: string, { status, body }: EdgeResponse): EdgeTierError {
  const {
    code = "edge_refused",
    detail,
    error,
    remedy = "Read the Worker's log.",
  } = problemSchema.safeParse(body).data ?? {};
  return cliErrors.edgeRefused(
    code,
    status,
    detail ?? error ?? `The edge responded to ${path} with status ${status}.`,
    remedy,
  );
}
