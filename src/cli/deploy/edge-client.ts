// Requests to the deployed edge, each to the version that was deployed last.

import { cliErrors } from "../errors.ts";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";

const TIMEOUT_MS = 30_000;
const problem = z.object({
  code: z.string().optional(),
  detail: z.string().optional(),
  error: z.string().optional(),
  remedy: z.string().optional(),
});

export interface EdgeResponse {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed; undefined if it is no JSON. */
  readonly body: unknown;
}

export interface EdgeClient {
  readonly url: string;
  readonly apiKey: string | undefined;
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** @throws edge_unreachable */
  get(path: string): Promise<EdgeResponse>;
  /** Of JSON. @throws edge_unreachable, and edge_refused unless the answer is 200 */
  post(path: string, body: unknown): Promise<EdgeResponse>;
  /** Of JSON, whatever the status. @throws edge_unreachable */
  postUnchecked(path: string, body: unknown): Promise<EdgeResponse>;
}

/** @param version of the Worker, by its id: while a deployment spreads, Cloudflare sends the request to that one */
export function createEdgeClient(
  url: string,
  worker: string,
  options: { readonly apiKey: string | undefined; readonly version: string | undefined },
): EdgeClient {
  const { apiKey, version } = options;
  const headers =
    version === undefined
      ? {}
      : { "cloudflare-workers-version-overrides": `${worker}="${version}"` };
  const send = async (path: string, init: RequestInit = {}): Promise<EdgeResponse> => {
    try {
      const response = await fetch(`${url}${path}`, {
        ...init,
        headers: {
          ...headers,
          "content-type": "application/json",
          ...(apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` }),
        },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      return {
        status: response.status,
        headers: response.headers,
        body: parseJson(await response.text()),
      };
    } catch (error) {
      throw cliErrors.edgeUnreachable(
        url,
        error instanceof Error && error.cause instanceof Error
          ? reasonOf(error.cause)
          : reasonOf(error),
        error,
      );
    }
  };
  const tryPost = async (path: string, body: unknown) =>
    await send(path, { method: "POST", body: JSON.stringify(body) });
  return {
    url,
    apiKey,
    headers,
    get: (path) => send(path),
    postUnchecked: tryPost,
    async post(path, body) {
      const answer = await tryPost(path, body);
      if (answer.status === 200) return answer;
      const {
        code = "edge_refused",
        detail,
        error,
        remedy = "See the Worker's log.",
      } = problem.safeParse(answer.body).data ?? {};
      throw cliErrors.edgeRefused(
        code,
        answer.status,
        detail ?? error ?? `The edge answered ${answer.status} to ${path}.`,
        remedy,
      );
    },
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
