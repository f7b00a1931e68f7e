// Tests the parsing of replies from EdgeTier and from other servers.
import { describe, expect, it } from "vitest";
import { parseReply } from "../../../src/cli/load/parse-reply.ts";
import { createReply } from "../../support/virtual-clock.ts";

describe("an answer", () => {
  it("has tier, cache layer and phases in its headers", () => {
    const headers = {
      "x-edgetier-tier": "edge-int8",
      "x-edgetier-cache": "miss",
      "server-timing": 'cache;desc="L2";dur=1.5, miss, total;dur=14, cdn-cache; desc=HIT',
    };
    expect(parseReply(createReply(200, headers))).toEqual({
      tier: "edge-int8",
      cache: "miss",
      isDegraded: false,
      phases: [
        ["cache", 1.5],
        ["total", 14],
      ],
    });
  });

  it("is degraded by its JSON, and not by a text in it", () => {
    const edge = { "x-edgetier-tier": "edge" };
    const degraded = (body: unknown, headers: object = edge) =>
      parseReply(createReply(200, { ...headers }, JSON.stringify(body))).isDegraded;
    expect({
      output: degraded({ outputs: [{ degraded: true }] }),
      label: degraded({ outputs: [{ degraded: false, label: '"degraded":true' }] }),
      otherServer: degraded({ degraded: true }, {}),
    }).toEqual({ output: true, label: false, otherServer: false });
  });

  it("of another server has its status only", () => {
    expect(parseReply(createReply(204, {}, ""))).toEqual({
      tier: undefined,
      cache: undefined,
      isDegraded: false,
      phases: [],
    });
  });
});

describe("an error", () => {
  it.each([
    [
      "problem details",
      503,
      '{"code":"overloaded","detail":"Too much."}',
      { code: "503 overloaded", detail: "Too much." },
    ],
    ["Triton", 400, '{"error":"unknown model"}', { code: "400", detail: "unknown model" }],
    [
      "OpenAI",
      429,
      '{"error":{"message":"Slow down.","code":"rate_limit"}}',
      { code: "429 rate_limit", detail: "Slow down." },
    ],
    [
      "a proxy",
      502,
      "<html>Bad gateway</html>",
      { code: "502", detail: "<html>Bad gateway</html>" },
    ],
  ])("is parsed in the form of %s", (_, status, body, error) =>
    expect(parseReply(createReply(status, {}, body)).error).toEqual(error),
  );
});
