// Parses and formats the headers `traceparent` and `tracestate` of W3C Trace Context (https://www.w3.org/TR/trace-context/).

export interface TraceContext {
  readonly traceId: string;
  readonly parentId: string;
  readonly isSampled: boolean;
  /** Vendor data of the client, forwarded unchanged. */
  readonly traceState: string | undefined;
}

/** Accepts version 00 only; an id must not be all zeros. */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
/** Accepts printable ASCII, up to the length that the specification requires everyone to forward. */
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;
const SAMPLED_FLAG = 1;

/** @returns undefined for a missing or invalid context; the caller then starts a trace */
export function parseTraceContext(
  header: (name: string) => string | undefined,
): TraceContext | undefined {
  const [, traceId, parentId, flags] = TRACEPARENT.exec(header("traceparent") ?? "") ?? [];
  if (traceId === undefined || parentId === undefined || flags === undefined) return undefined;
  const state = header("tracestate");
  return {
    traceId,
    parentId,
    isSampled: (Number.parseInt(flags, 16) & SAMPLED_FLAG) !== 0,
    traceState: state !== undefined && TRACESTATE.test(state) ? state : undefined,
  };
}

export function formatTraceHeaders({
  traceId,
  parentId,
  isSampled,
  traceState: state,
}: TraceContext): Readonly<Record<string, string>> {
  return {
    traceparent: `00-${traceId}-${parentId}-${isSampled ? "01" : "00"}`,
    ...(state === undefined ? {} : { tracestate: state }),
  };
}
