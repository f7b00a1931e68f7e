// Bad input to /v1: rejected with status, code and remedy, without effect on the next request.
import { beforeAll, describe, expect, it } from "vitest";
import toy from "../fixtures/toy.onnx";
import { type EdgeUnderTest, startEdgeUnderTest } from "../support/edge-app.ts";
import { fullDeployment } from "./full-engine.ts";

let edge: EdgeUnderTest;
beforeAll(async () => {
  edge = await startEdgeUnderTest(new Uint8Array(toy), fullDeployment);
});

const PREDICT = "/v1/models/toy/predict";
const post = (
  body: BodyInit,
  headers: Record<string, string> = { "content-type": "application/json" },
): RequestInit => ({ method: "POST", body, headers });
const json = (value: unknown): RequestInit => post(JSON.stringify(value));

const cases: [name: string, path: string, init: RequestInit, status: number, code: string][] = [
  ["an empty body", PREDICT, post(""), 400, "invalid_json"],
  ["broken JSON", PREDICT, post('{"inputs": "yes"'), 400, "invalid_json"],
  [
    "deeply nested JSON",
    PREDICT,
    post(`${"[".repeat(1500)}${"]".repeat(1500)}`),
    400,
    "invalid_request",
  ],
  ["JSON of another shape", PREDICT, json(["yes"]), 400, "invalid_request"],
  ["no inputs", PREDICT, json({}), 400, "invalid_request"],
  ["an input of another type", PREDICT, json({ inputs: 7 }), 400, "invalid_request"],
  ["an empty array", PREDICT, json({ inputs: [] }), 400, "invalid_request"],
  ["a null in the array", PREDICT, json({ inputs: ["yes", null] }), 400, "invalid_request"],
  ["an unknown field", PREDICT, json({ inputs: "yes", input: "no" }), 400, "invalid_request"],
  [
    "an unknown parameter",
    PREDICT,
    json({ inputs: "yes", parameters: { topk: 3 } }),
    400,
    "invalid_request",
  ],
  [
    "a parameter out of range",
    PREDICT,
    json({ inputs: "yes", parameters: { topK: 0 } }),
    400,
    "invalid_request",
  ],
  [
    "an unknown tier",
    PREDICT,
    json({ inputs: "yes", parameters: { maxTier: "moon" } }),
    400,
    "no_such_tier",
  ],
  ["an empty text", PREDICT, json({ inputs: "" }), 400, "empty_text"],
  ["white space", PREDICT, json({ inputs: ["yes", " \n\t "] }), 400, "empty_text"],
  [
    "a text over the model's limit",
    PREDICT,
    json({ inputs: "é".repeat(33) }),
    413,
    "input_too_large",
  ],
  [
    "an array over the limit",
    PREDICT,
    json({ inputs: ["yes", "yes", "yes", "yes", "yes"] }),
    413,
    "too_many_inputs",
  ],
  ["a body over the limit", PREDICT, json({ inputs: "a".repeat(100_000) }), 413, "body_too_large"],
  ["invalid UTF-8 in JSON", PREDICT, post(Uint8Array.of(0x7b, 0xff, 0x7d)), 400, "invalid_utf8"],
  [
    "invalid UTF-8 as text",
    PREDICT,
    post(Uint8Array.of(0xc3, 0x28), { "content-type": "text/plain" }),
    400,
    "invalid_utf8",
  ],
  [
    "half a surrogate pair",
    PREDICT,
    post(String.raw`{"inputs": "yes \ud800"}`),
    400,
    "invalid_utf8",
  ],
  [
    "a wrong media type",
    PREDICT,
    post("yes", { "content-type": "application/xml" }),
    415,
    "unsupported_media_type",
  ],
  ["no media type", PREDICT, post(Uint8Array.of(1), {}), 415, "unsupported_media_type"],
  [
    "a wrong deadline",
    PREDICT,
    post('{"inputs":"yes"}', { "content-type": "application/json", "x-deadline-ms": "soon" }),
    400,
    "invalid_deadline",
  ],
  [
    "a negative deadline",
    PREDICT,
    post('{"inputs":"yes"}', { "content-type": "application/json", "x-deadline-ms": "-5" }),
    400,
    "invalid_deadline",
  ],
  ["an unknown model", "/v1/models/other/predict", json({ inputs: "yes" }), 404, "model_not_found"],
  [
    "an unknown version",
    "/v1/models/toy@9/predict",
    json({ inputs: "yes" }),
    404,
    "version_not_found",
  ],
  [
    "an unknown alias",
    "/v1/models/toy@canary/predict",
    json({ inputs: "yes" }),
    404,
    "alias_not_found",
  ],
  [
    "an alias named like a property of every object",
    "/v1/models/toy@constructor/predict",
    json({ inputs: "yes" }),
    404,
    "alias_not_found",
  ],
  [
    "a model name with a path in it",
    "/v1/models/..%2ftoy/predict",
    json({ inputs: "yes" }),
    400,
    "invalid_model_name",
  ],
  [
    "a model name with NUL",
    "/v1/models/toy%00/predict",
    json({ inputs: "yes" }),
    400,
    "invalid_model_name",
  ],
  [
    "a model name of 256 characters",
    `/v1/models/${"a".repeat(256)}/predict`,
    json({ inputs: "yes" }),
    400,
    "invalid_model_name",
  ],
  [
    "a version number that is too large",
    "/v1/models/toy@99999999999999999999/predict",
    json({ inputs: "yes" }),
    400,
    "invalid_model_name",
  ],
  ["GET without input", PREDICT, {}, 400, "missing_input"],
  ["GET with an unknown parameter", `${PREDICT}?input=yes&top=1`, {}, 400, "invalid_request"],
  ["GET with an invalid number", `${PREDICT}?input=yes&topK=x`, {}, 400, "invalid_request"],
  ["another method", PREDICT, { method: "DELETE" }, 405, "method_not_allowed"],
  ["another path", "/v1/nothing", {}, 404, "route_not_found"],
];

describe("bad input is rejected with a detail and a remedy", () => {
  it.each(cases)("%s", async (_name, path, init, status, code) => {
    const response = await edge.app.request(path, {
      ...init,
      headers: { ...init.headers, "x-request-id": "bad-1" },
    });
    const problem: unknown = await response.json();
    expect(problem).toMatchObject({
      status,
      code,
      instance: "bad-1",
      detail: expect.stringMatching(/\S/),
      remedy: expect.stringMatching(/\S/),
      retryable: false,
    });
    expect(response.status).toBe(status);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect((await edge.predict({ inputs: "yes" })).status).toBe(200);
  });

  it("reaches neither a model nor the region, and logs no failure", () => {
    expect(edge.regionRequests).toEqual([]);
    expect(edge.logRecords.filter(({ level }) => level !== "info")).toEqual([]);
  });
});
