// Edge client: sends requests to the deployed edge, pinned to the Worker version that was deployed last.

import { cliErrors } from "../errors.ts";
import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";
import { tryParseJson } from "../../core/json.ts";

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
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>;
  /** @throws edge_unreachable */
  get(path: string): Promise<EdgeResponse>;
  /** Sends JSON. @throws edge_unreachable; the error of a response other than 200 */
  post(path: string, body: unknown): Promise<EdgeResponse>;
  /** Sends JSON and returns the response of any status. @throws edge_unreachable */
  postUnchecked(path: string, body: unknown): Promise<EdgeResponse>;
}

/**
 * Creates a client of a deployed edge.
 * @param options.version id of the Worker's version, to which Cloudflare routes requests while a deployment propagates
 */
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
