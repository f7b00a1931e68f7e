// Inputs and options as the requests that the API takes.

import { postJson } from "../api.ts";
import type { SentRequest } from "./curl.ts";
import type { Input } from "./inputs.ts";

export interface Options {
  readonly deadlineMs: string;
  readonly cache: string;
  /** Id of the last tier that may be asked, or "". */
  readonly maxTier: string;
}

export interface Prepared {
  readonly path: string;
  readonly init: RequestInit;
  readonly shown: Omit<SentRequest, "hasKey">;
}

/** @param input one that can be sent */
export function predictRequest(
  ref: string,
  input: Exclude<Input, { kind: "none" | "texts" }>,
  { deadlineMs, cache, maxTier }: Options,
): Prepared {
  const path = `/v1/models/${ref}/predict`;
  const deadline: Record<string, string> = deadlineMs === "" ? {} : { "x-deadline-ms": deadlineMs };
  const parameters = {
    ...(cache === "use" ? {} : { cache }),
    ...(maxTier === "" ? {} : { maxTier }),
  };
  if (input.kind === "text")
    return json(path, deadline, {
      inputs: input.text,
      ...(Object.keys(parameters).length === 0 ? {} : { parameters }),
    });
  const query = new URLSearchParams(parameters).toString();
  const withQuery = query === "" ? path : `${path}?${query}`;
  const headers = { ...deadline, "content-type": input.file.type };
  return {
    path: withQuery,
    init: { method: "POST", headers, body: input.file },
    shown: { path: withQuery, headers, body: { file: input.file.name } },
  };
}

export function embeddingsRequest(
  model: string,
  texts: readonly string[],
  { deadlineMs, cache }: Options,
): Prepared {
  const deadline: Record<string, string> = deadlineMs === "" ? {} : { "x-deadline-ms": deadlineMs };
  return json("/v1/embeddings", deadline, {
    model,
    input: texts,
    ...(cache === "use" ? {} : { cache }),
  });
}

function json(path: string, deadline: Readonly<Record<string, string>>, value: unknown): Prepared {
  const init = postJson(value);
  return {
    path,
    init: { ...init, headers: { ...deadline, "content-type": "application/json" } },
    shown: { path, headers: deadline, body: { json: JSON.stringify(value) } },
  };
}
