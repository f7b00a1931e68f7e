// Secrets: none leaves the Worker in a log, body or header, whatever fails. The tests run the whole Worker with upstreams that are
// unreachable, reject requests, or echo them.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createWorker } from "../../functions/edge/worker.ts";
import { parseLogRecord } from "../../src/telemetry/log-record.ts";
import {
  base64Url,
  ISSUER,
  createTestApiKey,
  createTestIssuer,
  createValidClaims,
} from "../support/test-credentials.ts";
import { fullDeployment } from "./full-engine.ts";

const S3_SECRET = "s3-secret-3f8a71c2";
const REDIS_TOKEN = "redis-token-9b1d40e7";
const COLLECTOR_KEY = "collectors-key-51c0ffee";
const UNREACHABLE_URL = "https://nowhere.test";

const background: Promise<unknown>[] = [];
const context = {
  waitUntil: (work: Promise<unknown>) => void background.push(work),
  passThroughOnException() {},
  props: {},
};

let logLines: string[];
let upstream: (request: Request) => Promise<Response>;
let fetchedOrigins: string[];
beforeEach(() => {
  logLines = [];
  fetchedOrigins = [];
  for (const method of ["debug", "log", "info", "warn", "error"] as const)
    vi.spyOn(console, method).mockImplementation(
      (...values) => void logLines.push(values.map(String).join(" ")),
    );
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    fetchedOrigins.push(new URL(request.url).origin);
    return await upstream(request);
  });
});
afterEach(() => vi.restoreAllMocks());

/** An error page that contains the whole request. */
const echo = async (request: Request) =>
  new Response(
    JSON.stringify({
      error: [...request.headers].flat().join(" ") + (await request.text()),
      url: request.url,
    }),
    { status: 500 },
  );

const UPSTREAMS: readonly [string, (request: Request) => Promise<Response>][] = [
  ["are unreachable", () => Promise.reject(new TypeError("connection refused"))],
  ["echo every request", echo],
  ["reject every request", async () => new Response("denied", { status: 403 })],
  ["return invalid data", async () => new Response("<html>")],
];

/** Variables that configure every upstream and credential kind. */
const createEnvironment = (apiKey: object) => ({
  EDGETIER_S3_ENDPOINT: `${UNREACHABLE_URL}/s3`,
  EDGETIER_S3_BUCKET: "models",
  EDGETIER_S3_ACCESS_KEY_ID: "access",
  EDGETIER_S3_SECRET_ACCESS_KEY: S3_SECRET,
  EDGETIER_REDIS_REST_URL: `${UNREACHABLE_URL}/redis`,
  EDGETIER_REDIS_REST_TOKEN: REDIS_TOKEN,
  EDGETIER_REGION_URL: `${UNREACHABLE_URL}/region`,
  EDGETIER_API_KEYS: JSON.stringify([apiKey]),
  EDGETIER_JWT_ISSUER: ISSUER,
  EDGETIER_JWT_AUDIENCE: "https://edge.test",
  EDGETIER_JWT_ALGORITHM: "ES256",
  EDGETIER_JWT_JWKS_URL: `${UNREACHABLE_URL}/keys`,
  EDGETIER_OTLP_URL: `${UNREACHABLE_URL}/otlp`,
  EDGETIER_OTLP_HEADERS: `authorization=Bearer%20${COLLECTOR_KEY}`,
  EDGETIER_TRACE_SHARE: "1",
  EDGETIER_ACCESS_LOG: "on",
  EDGETIER_RATE_LIMIT: "1000/60",
  EDGETIER_ADDRESS_RATE_LIMIT: "1000/60",
});

/** Sends every request with every credential. @returns the whole responses as text */
async function sendAllRequests(env: object, credentials: readonly string[]): Promise<string[]> {
  const worker = createWorker(fullDeployment, { sessions: new Map(), failures: [] });
  const responses: string[] = [];
  for (const credential of credentials) {
    for (const [path, init] of REQUESTS) {
      const headers = {
        ...init?.headers,
        authorization: `Bearer ${credential}`,
        "cf-connecting-ip": "203.0.113.7",
        "x-forwarded-host": "forger.test",
        forwarded: "host=forger.test",
      };
      const response = await worker.fetch(
        new Request(`https://edge.test${path}`, { ...init, headers }),
        env,
        context,
      );
      responses.push(
        `${response.status} ${[...response.headers].flat().join(" ")} ${await response.text()}`,
      );
    }
  }
  return responses;
}

describe.each(UPSTREAMS)("if upstreams %s", (_name, respond) => {
  beforeEach(() => {
    upstream = respond;
  });

  it("the Worker reveals no key, token or secret, and calls only configured upstreams", async () => {
    const [known, unknown] = [
      await createTestApiKey({ scopes: ["predict", "metadata", "admin"] }),
      await createTestApiKey(),
    ];
    const issuer = await createTestIssuer("ES256");
    const now = Date.now();
    const { expiresAtMs: _expires, ...entry } = known.entry;
    const env = createEnvironment(entry);
    const claims = createValidClaims(now);
    const credentials = [
      known.key,
      unknown.key,
      known.key.slice(0, 40),
      `${known.key}x`,
      await issuer.sign(claims),
      await issuer.sign({ ...claims, exp: 1 }),
      `${base64Url('{"alg":"none","kid":"one"}')}.${base64Url(JSON.stringify(claims))}.`,
      "not.a-token",
      "sk-of-somebody-else-51fa0c",
    ];
    const responses = await sendAllRequests(env, credentials);
    await Promise.allSettled(background);
    const output = [...responses, ...logLines].join("\n");
    for (const secret of [
      S3_SECRET,
      REDIS_TOKEN,
      COLLECTOR_KEY,
      entry.sha256,
      ...credentials.flatMap((credential) => [
        credential,
        credential.split(".").at(-1) ?? credential,
      ]),
    ].filter((text) => text !== ""))
      expect(output).not.toContain(secret);
    expect(logLines.some((record) => record.includes("jwks_failed"))).toBe(true);
    expect(logLines.some((record) => record.includes("request_failed"))).toBe(true);
    expect(logLines.some((record) => record.includes('"event":"request"'))).toBe(true);
    for (const record of logLines)
      expect(() => parseLogRecord(JSON.parse(record)), record).not.toThrow();
    expect([...new Set(fetchedOrigins)]).toEqual([UNREACHABLE_URL]);
  });
});

const json = { "content-type": "application/json" };
const REQUESTS: readonly [
  string,
  { readonly method: string; readonly headers: Record<string, string>; readonly body: string }?,
][] = [
  ["/v1/models"],
  ["/v1/models/toy/predict?input=https://forger.test/x"],
  [
    "/v1/models/toy/predict",
    {
      method: "POST",
      headers: json,
      body: JSON.stringify({ inputs: { url: "https://forger.test/photo.jpg" } }),
    },
  ],
  ["/v1/models/https:%2f%2fforger.test/predict?input=yes"],
  [
    "/v1/embeddings",
    {
      method: "POST",
      headers: json,
      body: JSON.stringify({ model: "toy", input: "https://forger.test/x" }),
    },
  ],
  [
    "/v2/models/toy/infer",
    {
      method: "POST",
      headers: json,
      body: JSON.stringify({
        inputs: [{ name: "input", shape: [1], datatype: "BYTES", data: ["https://forger.test/x"] }],
      }),
    },
  ],
  ["/v2/models/toy"],
  ["/metrics"],
];

it("an invalid configuration reveals no secret", async () => {
  upstream = echo;
  const env = {
    EDGETIER_S3_ENDPOINT: "nonsense",
    EDGETIER_S3_SECRET_ACCESS_KEY: S3_SECRET,
    EDGETIER_REDIS_REST_TOKEN: REDIS_TOKEN,
    EDGETIER_API_KEYS: "edgetier_put-here-by-mistake",
    EDGETIER_JWT_JWKS: '{"keys": "a-private-key"}',
  };
  const response = await createWorker(fullDeployment, { sessions: new Map(), failures: [] }).fetch(
    new Request("https://edge.test/v1/models"),
    env,
    context,
  );
  const output = [await response.text(), ...[...response.headers].flat(), ...logLines].join("\n");
  expect(response.status).toBe(500);
  expect(output).toContain("EDGETIER_API_KEYS");
  for (const secret of [S3_SECRET, REDIS_TOKEN, "put-here-by-mistake", "a-private-key"])
    expect(output).not.toContain(secret);
});
