// Span wrapper: runs work in a child span. Spans that the work starts from its context become children of that span.

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

/** Forces recording of the trace, because degraded requests are worth inspecting. */
export function markSpanDegraded({ span }: RequestContext): void {
  span.setAttributes({ "edgetier.degraded": true });
  span.forceRecording();
}

export async function withSpan<Result>(
  context: RequestContext,
  name: string,
  attributes: SpanAttributes,
  work: (context: RequestContext) => Promise<Result>,
): Promise<Result> {
  if (!context.span.isRecording) return await work(context);
  const span = context.span.startChild(name, attributes);
  try {
    const result = await work({ ...context, span });
    span.end();
    return result;
  } catch (error) {
    span.end(asEdgeTierError(error).code);
    throw error;
  }
}
