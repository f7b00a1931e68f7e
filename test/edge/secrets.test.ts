// No secret leaves the Worker: not in its log, an answer's body or its headers, whatever fails. The whole Worker, as it is deployed,
// with upstreams that cannot be reached, that refuse, or that send back what they were sent.
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

let logged: string[];
let upstream: (request: Request) => Promise<Response>;
let asked: string[];
beforeEach(() => {
  [logged, asked] = [[], []];
  for (const method of ["debug", "log", "info", "warn", "error"] as const)
    vi.spyOn(console, method).mockImplementation(
      (...values) => void logged.push(values.map(String).join(" ")),
    );
  vi.spyOn(globalThis, "fetch").mockImplementation(async (input, init) => {
    const request = new Request(input, init);
    asked.push(new URL(request.url).origin);
    return await upstream(request);
  });
});
afterEach(() => vi.restoreAllMocks());

/** What a careless server puts into its error page: all of the request. */
const echo = async (request: Request) =>
  new Response(
    JSON.stringify({
      error: [...request.headers].flat().join(" ") + (await request.text()),
      url: request.url,
    }),
    { status: 500 },
  );

const UPSTREAMS: readonly [string, (request: Request) => Promise<Response>][] = [
  ["cannot be reached", () => Promise.reject(new TypeError("connection refused"))],
  ["send back all that they are sent", echo],
  ["refuse", async () => new Response("denied", { status: 403 })],
  ["answer nonsense", async () => new Response("<html>")],
];

describe.each(UPSTREAMS)("when upstreams %s", (_, answers) => {
  beforeEach(() => {
    upstream = answers;
  });

  it("no key, token or upstream's secret shows up anywhere, and nothing is asked but what is configured", async () => {
    const [known, unknown] = [
      await createTestApiKey({ scopes: ["predict", "metadata", "admin"] }),
      await createTestApiKey(),
    ];
    const issuer = await createTestIssuer("ES256");
    const now = Date.now();
    const { expiresAtMs: _expires, ...entry } = known.entry;
    const env = {
      EDGETIER_S3_ENDPOINT: `${UNREACHABLE_URL}/s3`,
      EDGETIER_S3_BUCKET: "models",
      EDGETIER_S3_ACCESS_KEY_ID: "access",
      EDGETIER_S3_SECRET_ACCESS_KEY: S3_SECRET,
      EDGETIER_REDIS_REST_URL: `${UNREACHABLE_URL}/redis`,
      EDGETIER_REDIS_REST_TOKEN: REDIS_TOKEN,
      EDGETIER_REGION_URL: `${UNREACHABLE_URL}/region`,
      EDGETIER_API_KEYS: JSON.stringify([entry]),
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
    };
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
    const worker = createWorker(fullDeployment, { sessions: new Map(), failures: [] });
    const seen: string[] = [];
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
        seen.push(
          `${response.status} ${[...response.headers].flat().join(" ")} ${await response.text()}`,
        );
      }
    }
    await Promise.allSettled(background);
    const everything = [...seen, ...logged].join("\n");
    for (const secret of [
      S3_SECRET,
      REDIS_TOKEN,
      COLLECTOR_KEY,
      entry.sha256,
      ...credentials.flatMap((one) => [one, one.split(".").at(-1) ?? one]),
    ].filter((one) => one !== ""))
      expect([secret, everything.includes(secret)]).toEqual([secret, false]);
    expect(logged.some((record) => record.includes("jwks_failed"))).toBe(true);
    expect(logged.some((record) => record.includes("request_failed"))).toBe(true);
    expect(logged.some((record) => record.includes('"event":"request"'))).toBe(true);
    for (const record of logged)
      expect(() => parseLogRecord(JSON.parse(record)), record).not.toThrow();
    expect([...new Set(asked)]).toEqual([UNREACHABLE_URL]);
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

it("nor when the configuration is wrong", async () => {
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
  const everything = [await response.text(), ...[...response.headers].flat(), ...logged].join("\n");
  expect(response.status).toBe(500);
  expect(everything).toContain("EDGETIER_API_KEYS");
  for (const secret of [S3_SECRET, REDIS_TOKEN, "put-here-by-mistake", "a-private-key"])
    expect(everything).not.toContain(secret);
});
