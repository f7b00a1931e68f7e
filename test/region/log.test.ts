import { describe, expect, it } from "vitest";
import * as z from "zod";
import { createLog } from "../../functions/region/log.ts";
import { readRegionSettings } from "../../functions/region/settings.ts";
// Log of the region: fields of each record, redaction of secrets, and the schema.
import { processErrors } from "../../src/core/process-errors.ts";
import { logLevelOf, parseLogRecord } from "../../src/telemetry/log-record.ts";

const SECRET = "s3-secret-3f8a71c2";
const COLLECTOR_KEY = "collectors-key-51c0";
const settings = readRegionSettings({
  EDGETIER_S3_ENDPOINT: "http://s3.test",
  EDGETIER_S3_BUCKET: "models",
  EDGETIER_S3_ACCESS_KEY_ID: "access",
  EDGETIER_S3_SECRET_ACCESS_KEY: SECRET,
  EDGETIER_OTLP_HEADERS: `authorization=Bearer%20${COLLECTOR_KEY},x-tenant=one`,
});

function logEvent(event: object): Record<string, unknown> {
  const lines: string[] = [];
  createLog(settings, (line) => lines.push(line))(event);
  expect(lines).toHaveLength(1);
  expect(lines[0]?.endsWith("\n")).toBe(true);
  return JSON.parse(lines[0] ?? "");
}

describe("a log record", () => {
  it("has time and level, the texts of the error and its cause, and matches the schema", () => {
    const error = processErrors.componentFailed(
      "store",
      "it answered nonsense",
      new TypeError("not JSON"),
    );
    const record = logEvent({
      event: "request_failed",
      requestId: "r-1",
      traceId: "0af7651916cd43dd8448eb211c80319c",
      error,
    });
    expect(record).toMatchObject({
      time: expect.stringMatching(/^\d{4}-.*Z$/),
      level: "error",
      requestId: "r-1",
      error: expect.stringMatching(/it answered nonsense.* Cause: TypeError: not JSON$/s),
    });
    expect(parseLogRecord(record)).toEqual(record);
  });

  it("has none of the deployment's secrets, even if an error contains them", () => {
    const record = logEvent({
      event: "store_unavailable",
      error: new Error(`rejected ${SECRET}`, { cause: new Error(`sent Bearer ${COLLECTOR_KEY}`) }),
    });
    expect(JSON.stringify(record)).not.toContain(SECRET);
    expect(JSON.stringify(record)).not.toContain(COLLECTOR_KEY);
    expect(record["error"]).toContain("[secret]");
  });
});

describe("the log schema", () => {
  it("rejects unknown events, unknown fields and a wrong level", () => {
    const good = { level: "info", event: "request", status: 200, durationMs: 1, requestId: "r-1" };
    expect(parseLogRecord(good)).toEqual(good);
    for (const bad of [
      { ...good, event: "requested" },
      { ...good, input: "text" },
      { ...good, level: "error" },
      { ...good, traceId: "x" },
      { ...good, status: "200" },
    ])
      expect(() => parseLogRecord(bad)).toThrow(z.ZodError);
    expect(logLevelOf("requested")).toBe("error");
  });
});
