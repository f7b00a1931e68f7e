import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseLoadReport, formatLoadReport } from "../../src/protocol/load-report.ts";

const fullReport = { utilization: 0.25, requestsInFlight: 12, oldestQueuedMs: 35.5 };

describe("a load report", () => {
  it("has ORCA's two text forms", () => {
    expect(formatLoadReport(fullReport, "text")).toBe(
      "TEXT application_utilization=0.25, named_metrics.requests_in_flight=12, named_metrics.oldest_queued_ms=35.5",
    );
    expect(formatLoadReport(fullReport, " JSON ")).toBe(
      'JSON {"application_utilization":0.25,"named_metrics":{"requests_in_flight":12,"oldest_queued_ms":35.5}}',
    );
    expect(formatLoadReport(fullReport, "bin")).toBeUndefined();
    expect(formatLoadReport(fullReport, "")).toBeUndefined();
  });

  it("round-trips in the text form (property)", () => {
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
});

describe("parseLoadReport", () => {
  it.each([
    [
      "unknown metrics",
      "TEXT cpu_utilization=0.3, application_utilization=0.5, named_metrics.kv_cache_utilization=0.4",
      { utilization: 0.5 },
    ],
    [
      "colons, which Envoy accepts",
      "TEXT application_utilization:0.5,named_metrics.requests_in_flight:3",
      { utilization: 0.5, requestsInFlight: 3 },
    ],
    [
      "invalid numbers",
      "TEXT application_utilization=much, named_metrics.requests_in_flight=-3, named_metrics.oldest_queued_ms=1e400",
      {},
    ],
    ["the JSON form", 'JSON {"application_utilization":0.5}', {}],
    [
      "invalid pairs",
      "TEXT application_utilization, =, a=b=c, named_metrics.oldest_queued_ms=7",
      { oldestQueuedMs: 7 },
    ],
    ["the binary form", "BIN CgQ=", {}],
    ["a missing header", null, {}],
  ])("is lenient: %s", (_description, header, report) => {
    expect(parseLoadReport(header)).toEqual(report);
  });

  it("never throws (property)", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("TEXT ", ""),
        fc.string(),
        (prefix, text) => void expect(parseLoadReport(prefix + text)).toBeInstanceOf(Object),
      ),
    );
  });
});
