// W3C Trace Context (https://www.w3.org/TR/trace-context/): reads and writes `traceparent` and `tracestate`.

export interface TraceContext {
  readonly traceId: string;
  readonly parentId: string;
  readonly isSampled: boolean;
  /** Of the client's vendor, for those further on. */
  readonly traceState: string | undefined;
}

/** Version 00; no id is all zeros. */
const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})$/;
/** Printable ASCII, of the length that everybody has to pass on. */
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;
const SAMPLED_FLAG = 1;

/** @returns undefined for what is none: a trace then begins here */
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
