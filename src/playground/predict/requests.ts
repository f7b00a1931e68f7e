// API requests: built from inputs and form options.

import { postJson } from "../edge-api.ts";
import type { CurlRequest } from "./curl-command.ts";
import type { Input } from "./input-fields.ts";

export interface PredictFormOptions {
  readonly deadlineMs: string;
  readonly cache: string;
  /** Id of the last tier that may be called, or "". */
  readonly maxTier: string;
}

export interface PreparedRequest {
  readonly path: string;
  readonly init: RequestInit;
  readonly curl: Omit<CurlRequest, "hasKey">;
}

export function predictRequest(
  ref: string,
  input: Exclude<Input, { kind: "none" | "texts" }>,
  { deadlineMs, cache, maxTier }: PredictFormOptions,
): PreparedRequest {
  const path = `/v1/models/${ref}/predict`;
  const deadline: Record<string, string> = deadlineMs === "" ? {} : { "x-deadline-ms": deadlineMs };
  const parameters = {
    ...(cache === "use" ? {} : { cache }),
    ...(maxTier === "" ? {} : { maxTier }),
  };
  if (input.kind === "text")
    return jsonRequest(path, deadline, {
      inputs: input.text,
      ...(Object.keys(parameters).length === 0 ? {} : { parameters }),
    });
  const query = new URLSearchParams(parameters).toString();
  const withQuery = query === "" ? path : `${path}?${query}`;
  const headers = { ...deadline, "content-type": input.file.type };
  return {
    path: withQuery,
    init: { method: "POST", headers, body: input.file },
    curl: { path: withQuery, headers, body: { file: input.file.name } },
  };
}

export function embeddingsRequest(
  model: string,
  texts: readonly string[],
  { deadlineMs, cache }: PredictFormOptions,
): PreparedRequest {
  const deadline: Record<string, string> = deadlineMs === "" ? {} : { "x-deadline-ms": deadlineMs };
  return jsonRequest("/v1/embeddings", deadline, {
    model,
    input: texts,
    ...(cache === "use" ? {} : { cache }),
  });
}

function jsonRequest(
  path: string,
  deadline: Readonly<Record<string, string>>,
  value: unknown,
): PreparedRequest {
  const init = postJson(value);
  return {
    path,
    init: { ...init, headers: { ...deadline, "content-type": "application/json" } },
    curl: { path, headers: deadline, body: { json: JSON.stringify(value) } },
  };
}
