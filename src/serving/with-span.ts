// Work for a request as a span of its own, under which is traced what the work does with the context that it is given.

import { asEdgeTierError } from "../core/errors.ts";
import type { SpanAttributes } from "../core/tracing.ts";
import type { Manifest, TierManifest } from "../registry/manifest.ts";
import type { RequestContext } from "./request-context.ts";

export const modelAttributes = ({
  model,
  version,
}: Pick<Manifest, "model" | "version">): SpanAttributes => ({
  "edgetier.model": model,
  "edgetier.version": version,
});
export const tierAttributes = (
  { id, place }: Pick<TierManifest, "id" | "place">,
  inputs?: number,
): SpanAttributes => ({
  "edgetier.tier": id,
  "edgetier.place": place,
  ...(inputs === undefined ? {} : { "edgetier.inputs": inputs }),
});

/** Such a request is worth looking at. */
export function markSpanDegraded({ span }: RequestContext): void {
  span.setAttributes({ "edgetier.degraded": true });
  span.forceRecording();
}

export async function withSpan<Result>(
  context: RequestContext,
  name: string,
  facts: SpanAttributes,
  work: (context: RequestContext) => Promise<Result>,
): Promise<Result> {
  if (!context.span.isRecording) return await work(context);
  const span = context.span.startChild(name, facts);
  try {
    const result = await work({ ...context, span });
    span.end();
    return result;
  } catch (error) {
    span.end(asEdgeTierError(error).code);
    throw error;
  }
}
