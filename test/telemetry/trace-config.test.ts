// Trace variables: defaults, formats and rejected values.
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { parseConfig } from "../../src/core/config.ts";
import { traceVariables } from "../../src/telemetry/trace-config.ts";

const parse = (variables: object) => parseConfig(z.object(traceVariables), variables);
const CONFIG_ERROR = "invalid_configuration";

function captureError(variables: object): unknown {
  try {
    return parse(variables);
  } catch (error) {
    return error;
  }
}

describe("the trace variables", () => {
  it("disable tracing by default", () => {
    expect(parse({})).toEqual({
      EDGETIER_OTLP_HEADERS: {},
      EDGETIER_TRACE_SHARE: 0.01,
      EDGETIER_TRACE_EXTRA_PER_SECOND: 10,
    });
  });

  it("accept headers in the format of OpenTelemetry's variable", () => {
    expect(
      parse({ EDGETIER_OTLP_HEADERS: "authorization=Bearer%20abc==, X-Team = a%2Cb" })
        .EDGETIER_OTLP_HEADERS,
    ).toEqual({ authorization: "Bearer abc==", "x-team": "a,b" });
  });

  it.each(["authorization", "a b=c", "=x", "a=%zz", "a=b,,c=d", "a=b%0d%0ac"])(
    "reject malformed headers without quoting them: %s",
    (text) => {
      const error = captureError({ EDGETIER_OTLP_HEADERS: `x-secret=s3cr3t-value,${text}` });
      expect(error).toMatchObject({ code: CONFIG_ERROR });
      expect(String(error)).toContain("EDGETIER_OTLP_HEADERS");
      expect(String(error)).not.toContain("s3cr3t-value");
    },
  );

  it.each([
    { EDGETIER_OTLP_URL: "collector:4318" },
    { EDGETIER_TRACE_SHARE: "2" },
    { EDGETIER_TRACE_EXTRA_PER_SECOND: "-1" },
  ])("reject %o and name the variable", (variables) => {
    const error = captureError(variables);
    expect(error).toMatchObject({ code: CONFIG_ERROR });
    expect(String(error)).toContain(Object.keys(variables)[0]);
  });
});
