// Edge API client of the page: sends the key with each request, and throws errors with a remedy.

import type { ProblemDetails } from "../protocol/problem-details.ts";

const API_KEY_STORAGE_KEY = "edgetier-key";

export const readApiKey = (): string => sessionStorage.getItem(API_KEY_STORAGE_KEY) ?? "";
export function saveApiKey(key: string): void {
  if (key === "") sessionStorage.removeItem(API_KEY_STORAGE_KEY);
  else sessionStorage.setItem(API_KEY_STORAGE_KEY, key);
}

/** Error response of the edge, or status 0 if it is unreachable. */
export class ApiError extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export interface ApiResponse<Body> {
  readonly body: Body;
  readonly headers: Headers;
  /** Time from sending the request to the last byte of the response. */
  readonly durationMs: number;
}

/** @throws ApiError */
export async function callApi<Body>(
  path: string,
  init: RequestInit = {},
): Promise<ApiResponse<Body>> {
  const headers = new Headers(init.headers);
  const key = readApiKey();
  if (key !== "") headers.set("authorization", `Bearer ${key}`);
  const startedAtMs = performance.now();
  const response = await fetch(path, { ...init, headers, redirect: "error" }).catch(
    (error: unknown) => {
      throw new ApiError(
        0,
        `The edge did not respond: ${error instanceof Error ? error.message : String(error)}. Check the network.`,
      );
    },
  );
  const text = await response.text();
  const durationMs = performance.now() - startedAtMs;
  const body = tryParseJson(text);
  if (!response.ok) {
    const { detail = `The edge responded with status ${response.status}.`, remedy = "" } = (body ??
      {}) as Partial<ProblemDetails>;
    throw new ApiError(
      response.status,
      `${detail} ${response.status === 401 ? "Enter an API key at the top of the page." : remedy}`.trim(),
    );
  }
  return { body: body as Body, headers: response.headers, durationMs };
}

export const postJson = (value: unknown): RequestInit => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(value),
});

function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
