// The variables of tracing: what is taken, and what is refused with the reason.
import { describe, expect, it } from "vitest";
import * as z from "zod";
import { parseConfig } from "../../src/core/config.ts";
import { EdgeTierError } from "../../src/core/errors.ts";
import { traceVariables } from "../../src/telemetry/trace-config.ts";

const parse = (variables: object) => parseConfig(z.object(traceVariables), variables);

describe("the variables of tracing", () => {
  it("have defaults that trace nothing", () => {
    expect(parse({})).toEqual({
      EDGETIER_OTLP_HEADERS: {},
      EDGETIER_TRACE_SHARE: 0.01,
      EDGETIER_TRACE_EXTRA_PER_SECOND: 10,
    });
  });

  it("take headers as OpenTelemetry's own variable does", () => {
    expect(
      parse({ EDGETIER_OTLP_HEADERS: "authorization=Bearer%20abc==, X-Team = a%2Cb" })
        .EDGETIER_OTLP_HEADERS,
    ).toEqual({ authorization: "Bearer abc==", "x-team": "a,b" });
  });

  it.each(["authorization", "a b=c", "=x", "a=%zz", "a=b,,c=d", "a=b%0d%0ac"])(
    "refuse headers that are none, without repeating them: %s",
    (text) => {
      const refusal = (() => {
        try {
          return parse({ EDGETIER_OTLP_HEADERS: `x-secret=s3cr3t-value,${text}` });
        } catch (error) {
          return error;
        }
      })();
      expect(refusal).toBeInstanceOf(EdgeTierError);
      expect(String(refusal)).toContain("EDGETIER_OTLP_HEADERS");
      expect(String(refusal)).not.toContain("s3cr3t-value");
    },
  );

  it.each([
    { EDGETIER_OTLP_URL: "collector:4318" },
    { EDGETIER_TRACE_SHARE: "2" },
    { EDGETIER_TRACE_EXTRA_PER_SECOND: "-1" },
  ])("refuse %o", (variables) => {
    expect(() => parse(variables)).toThrow(Object.keys(variables)[0]);
  });
});
