import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseLoadReport, formatLoadReport } from "../../src/protocol/load-report.ts";

const fullReport = { utilization: 0.25, requestsInFlight: 12, oldestQueuedMs: 35.5 };

describe("a load report", () => {
  it("has the two forms that ORCA's header has as text", () => {
    expect(formatLoadReport(fullReport, "text")).toBe(
      "TEXT application_utilization=0.25, named_metrics.requests_in_flight=12, named_metrics.oldest_queued_ms=35.5",
    );
    expect(formatLoadReport(fullReport, " JSON ")).toBe(
      'JSON {"application_utilization":0.25,"named_metrics":{"requests_in_flight":12,"oldest_queued_ms":35.5}}',
    );
    expect([formatLoadReport(fullReport, "bin"), formatLoadReport(fullReport, "")]).toEqual([
      undefined,
      undefined,
    ]);
  });

  it("is read as it was written, as text", () => {
    const number = fc
      .double({ min: 0, noNaN: true, noDefaultInfinity: true })
      .filter((value) => !Object.is(value, -0));
    const report = fc.record(
      { utilization: number, requestsInFlight: number, oldestQueuedMs: number },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        report,
        (report) =>
          void expect(parseLoadReport(formatLoadReport(report, "text") ?? null)).toEqual(report),
      ),
    );
  });

  it.each([
    [
      "others' metrics",
      "TEXT cpu_utilization=0.3, application_utilization=0.5, named_metrics.kv_cache_utilization=0.4",
      { utilization: 0.5 },
    ],
    [
      "colons, as Envoy takes them",
      "TEXT application_utilization:0.5,named_metrics.requests_in_flight:3",
      { utilization: 0.5, requestsInFlight: 3 },
    ],
    [
      "what is no number, or none that can be",
      "TEXT application_utilization=much, named_metrics.requests_in_flight=-3, named_metrics.oldest_queued_ms=1e400",
      {},
    ],
    ["the form of JSON, which was not asked for", 'JSON {"application_utilization":0.5}', {}],
    [
      "pairs that are none",
      "TEXT application_utilization, =, a=b=c, named_metrics.oldest_queued_ms=7",
      { oldestQueuedMs: 7 },
    ],
    ["the binary form", "BIN CgQ=", {}],
    ["nothing", null, {}],
  ])("is read leniently: %s", (_what, header, report) => {
    expect(parseLoadReport(header)).toEqual(report);
  });

  it("is never a reason to fail", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("TEXT ", ""),
        fc.string(),
        (prefix, text) => void expect(parseLoadReport(prefix + text)).toBeInstanceOf(Object),
      ),
    );
  });
});
