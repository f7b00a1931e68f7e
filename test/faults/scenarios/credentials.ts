import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import * as z from "zod";
// Who asks: tenants whose answers must not cross, and credentials that are not what they seem.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import { runEdgetier } from "../../support/edgetier-command.ts";
import type { FaultProxy } from "../../support/fault-proxy.ts";
import { sendRequest, type HttpReply, formatReply } from "../lib/http-client.ts";
import { OUT_OF_SCOPE_SAMPLE } from "../lib/intent-checks.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";
import { waitUntil } from "../lib/wait-until.ts";

const PREDICT = "/v1/models/intent/predict";
const KEPT_WITHIN_MS = 5_000;
const body = (text: string) => JSON.stringify({ inputs: text });
/** With time enough that no answer is degraded, and so not kept. */
const bearer = (token: string) => ({ authorization: `Bearer ${token}`, "x-deadline-ms": "20000" });
const layerOf = ({ headers }: HttpReply) => headers["x-edgetier-cache"];

const created = z.object({ key: z.string(), entry: z.object({ id: z.string() }).loose() });
const createdRegionKey = z.object({ key: z.string() });

/** As an operator makes one: the key, and what the edge is told of it. */
const newKey = async (tenant: string) =>
  created.parse(
    await runCliJson(["keys", "create", "--tenant", tenant, "--scope", "predict", "--json"]),
  );
const newRegionKey = async (id: string) =>
  createdRegionKey.parse(await runCliJson(["region", "key", "--id", id, "--json"])).key;

async function runCliJson(args: readonly string[]): Promise<unknown> {
  const { code, stdout, stderr } = await runEdgetier(args);
  if (code !== 0) throw new Error(`edgetier ${args.join(" ")} ended with ${code}: ${stderr}`);
  return JSON.parse(stdout);
}

async function runTenantIsolation(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const [one, two] = [await newKey("one"), await newKey("two")];
  const edge = await system.startEdge({
    EDGETIER_API_KEYS: JSON.stringify([one.entry, two.entry]),
  });
  const figures = { inputs: 0, hitsOfTheirOwn: 0, crossed: 0 };
  const headers: Readonly<Record<string, string>>[] = [
    {},
    { "x-forwarded-for": "1.2.3.4" },
    { "x-forwarded-host": "other.example" },
    { "accept-language": "de" },
    { origin: "https://other.example" },
    { cookie: "session=1" },
    { "x-tenant": "one" },
    { traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01` },
  ];
  try {
    for (let index = 0; index < samples; index++) {
      const more = headers[index % headers.length] ?? {};
      const as = ({ key }: typeof one) =>
        sendRequest(edge.url, {
          path: PREDICT,
          headers: { ...bearer(key), ...more },
          body: body(`${OUT_OF_SCOPE_SAMPLE.text} ${index}`),
        });
      figures.inputs++;
      await as(one);
      const isKept = await waitUntil(async () => layerOf(await as(one)) !== "miss", KEPT_WITHIN_MS);
      findings.check(
        isKept !== undefined,
        () => `its own answer was not kept, with ${JSON.stringify(more)}`,
      );
      figures.hitsOfTheirOwn += Number(isKept !== undefined);
      const other = await as(two);
      figures.crossed += Number(layerOf(other) !== "miss");
      findings.check(
        other.status === 200 && layerOf(other) === "miss",
        () =>
          `the other tenant with ${JSON.stringify(more)} got one from ${layerOf(other)}: ${formatReply(other)}`,
      );
    }
    const open = await sendRequest(edge.url, {
      path: PREDICT,
      body: body(OUT_OF_SCOPE_SAMPLE.text),
    });
    findings.check(open.status === 401, () => `without a key: ${formatReply(open)}`);
    return { figures, problems: findings.problems };
  } finally {
    await edge.stop();
  }
}

async function expectUnauthorized(
  findings: ProblemCollector,
  edge: string,
  cases: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Promise<number> {
  for (const [what, headers] of Object.entries(cases)) {
    const reply = await sendRequest(edge, {
      path: PREDICT,
      headers,
      body: body(OUT_OF_SCOPE_SAMPLE.text),
    });
    findings.check(
      reply.status === 401 && reply.headers["www-authenticate"] !== undefined,
      () => `${what}: ${formatReply(reply)}`,
    );
  }
  return Object.keys(cases).length;
}

async function runApiKeys(system: FaultSystem, { samples }: ScenarioSize): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const { key, entry } = await newKey("one");
  const [expired, unknown] = [await newKey("two"), (await newKey("three")).key];
  const list = [entry, { ...expired.entry, expiresAt: "2020-01-01T00:00:00Z" }];
  const edge = await system.startEdge({ EDGETIER_API_KEYS: JSON.stringify(list) });
  try {
    const right = await sendRequest(edge.url, {
      path: PREDICT,
      headers: bearer(key),
      body: body(OUT_OF_SCOPE_SAMPLE.text),
    });
    findings.check(right.status === 200, () => `the right key: ${formatReply(right)}`);
    const cases = await expectUnauthorized(findings, edge.url, {
      "no key": {},
      "an empty one": bearer(""),
      "a forged one": bearer(unknown),
      "an expired one": bearer(expired.key),
      "half of it": bearer(key.slice(0, key.length >> 1)),
      "a letter less": bearer(key.slice(0, -1)),
      "a letter more": bearer(`${key}A`),
      "another scheme": { authorization: `Basic ${Buffer.from(`x:${key}`).toString("base64")}` },
      "its hash": bearer(createHash("sha256").update(key).digest("hex")),
      "in the address": { "x-original-url": `${PREDICT}?key=${key}` },
    });
    // Rejecting a key with a correct beginning takes no longer than rejecting any other key.
    const timed = async (token: string) => {
      const times: number[] = [];
      for (let index = 0; index < samples; index++)
        times.push(
          (await sendRequest(edge.url, { path: PREDICT, headers: bearer(token), body: body("x") }))
            .durationMs,
        );
      return quantile(times, 0.5);
    };
    const [nearMs, farMs] = [
      await timed(`${key.slice(0, -1)}${key.endsWith("A") ? "B" : "A"}`),
      await timed(unknown),
    ];
    findings.check(
      Math.abs(nearMs - farMs) < 5,
      () => `rejecting a nearly correct key takes ${nearMs} ms, any other ${farMs} ms`,
    );
    return {
      figures: { cases, nearlyRightP50Ms: nearMs, wrongP50Ms: farMs },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

const json64 = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const ISSUER = "https://issuer.example";
const claims = (more: object = {}) => ({
  iss: ISSUER,
  aud: "edgetier",
  sub: "1",
  tenant: "one",
  scope: "predict",
  exp: Math.floor(Date.now() / 1_000) + 600,
  ...more,
});

function createJwt(key: KeyObject, header: object, payload: object): string {
  const signed = `${json64({ alg: "ES256", kid: "k1", typ: "JWT", ...header })}.${json64(payload)}`;
  return `${signed}.${sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" }).toString("base64url")}`;
}

async function runJwts(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const [own, other] = [
    generateKeyPairSync("ec", { namedCurve: "P-256" }),
    generateKeyPairSync("ec", { namedCurve: "P-256" }),
  ];
  const jwks = {
    keys: [{ ...own.publicKey.export({ format: "jwk" }), kid: "k1", alg: "ES256", use: "sig" }],
  };
  const edge = await system.startEdge({
    EDGETIER_JWT_ISSUER: ISSUER,
    EDGETIER_JWT_AUDIENCE: "edgetier",
    EDGETIER_JWT_ALGORITHM: "ES256",
    EDGETIER_JWT_JWKS: JSON.stringify(jwks),
  });
  try {
    const good = createJwt(own.privateKey, {}, claims());
    const right = await sendRequest(edge.url, {
      path: PREDICT,
      headers: bearer(good),
      body: body(OUT_OF_SCOPE_SAMPLE.text),
    });
    findings.check(right.status === 200, () => `a right token: ${formatReply(right)}`);
    const [head = "", payload = "", signature = ""] = good.split(".");
    const none = `${json64({ alg: "none", kid: "k1" })}.${payload}.`;
    const hmacHead = json64({ alg: "HS256", kid: "k1" });
    const confused = `${hmacHead}.${payload}.${createHmac("sha256", JSON.stringify(jwks.keys[0])).update(`${hmacHead}.${payload}`).digest("base64url")}`;
    const cases = await expectUnauthorized(findings, edge.url, {
      "alg none": bearer(none),
      "alg none with a signature": bearer(`${none}${signature}`),
      "alg HS256 with the public key": bearer(confused),
      "another key": bearer(createJwt(other.privateKey, {}, claims())),
      "an unknown key id": bearer(createJwt(own.privateKey, { kid: "k2" }, claims())),
      "a changed payload": bearer(`${head}.${json64(claims({ tenant: "two" }))}.${signature}`),
      "no signature": bearer(`${head}.${payload}.`),
      truncated: bearer(good.slice(0, -10)),
      expired: bearer(createJwt(own.privateKey, {}, claims({ exp: 1_600_000_000 }))),
      "not yet valid": bearer(
        createJwt(own.privateKey, {}, claims({ nbf: Math.floor(Date.now() / 1_000) + 3_600 })),
      ),
      "without an end": bearer(createJwt(own.privateKey, {}, claims({ exp: undefined }))),
      "another issuer": bearer(
        createJwt(own.privateKey, {}, claims({ iss: "https://other.example" })),
      ),
      "another audience": bearer(createJwt(own.privateKey, {}, claims({ aud: "other" }))),
      "a crit header": bearer(createJwt(own.privateKey, { crit: ["exp"] }, claims())),
    });
    return { figures: { cases }, problems: findings.problems };
  } finally {
    await edge.stop();
  }
}

/** An edge with the region's key gets its answers; another edge and unsigned requests do not. */
async function checkRegionKeys(
  urls: { readonly edge: string; readonly stranger: string; readonly region: string },
  findings: ProblemCollector,
): Promise<void> {
  const answered = await sendRequest(urls.edge, {
    path: PREDICT,
    body: body(OUT_OF_SCOPE_SAMPLE.text),
  });
  findings.check(
    answered.status === 200 && answered.text.includes("region-int8"),
    () => `an edge with the right key: ${formatReply(answered)}`,
  );
  const rejected = await sendRequest(urls.stranger, {
    path: PREDICT,
    body: body(`${OUT_OF_SCOPE_SAMPLE.text} 2`),
  });
  findings.check(
    /"degraded":true/.test(rejected.text),
    () => `an edge with another key: ${formatReply(rejected)}`,
  );
  const unsigned = await sendRequest(urls.region, {
    path: "/v2/models/intent/infer",
    body: '{"inputs":[]}',
  });
  findings.check(unsigned.status === 401, () => `without a signature: ${formatReply(unsigned)}`);
  const live = await sendRequest(urls.region, { path: "/v2/health/live" });
  findings.check(live.status === 200, () => `health without a signature: ${formatReply(live)}`);
}

type CapturedRequest = NonNullable<FaultProxy["lastForwardedRequest"]>;

/** Sends a captured request again, unchanged and changed. @returns the number of requests */
async function checkReplays(
  region: string,
  { headers, body: sent, path }: CapturedRequest,
  findings: ProblemCollector,
): Promise<number> {
  const without = (name: string) =>
    Object.fromEntries(Object.entries(headers).filter(([header]) => header !== name));
  const replays = [
    { what: "replayed unchanged", headers, body: sent, path },
    { what: "another body", headers, body: sent.with(0, (sent[0] ?? 0) ^ 1), path },
    { what: "another path", headers, body: sent, path: path.replace("intent", "mood") },
    ...["signature", "signature-input", "content-digest"].flatMap((name) => [
      { what: `without ${name}`, headers: without(name), body: sent, path },
      {
        what: `${name} cut off`,
        headers: { ...headers, [name]: (headers[name] ?? "").slice(0, -8) },
        body: sent,
        path,
      },
    ]),
  ];
  for (const { what, ...replay } of replays) {
    const reply = await sendRequest(region, replay);
    findings.check(reply.status === 401, () => `${what}: ${formatReply(reply)}`);
  }
  return replays.length;
}

/** Replays requests of the edge that the proxy recorded, unchanged and changed. */
async function runReplayedRequests(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const [own, other] = [await newRegionKey("edge"), await newRegionKey("other")];
  const region = await system.startRegion({ EDGETIER_REGION_KEYS: own }, ["intent"]);
  const through = system.proxies.region.target;
  system.proxies.region.target = region.url;
  const [edge, stranger] = [
    await system.startEdge({ EDGETIER_REGION_KEY: own }),
    await system.startEdge({ EDGETIER_REGION_KEY: other }),
  ];
  try {
    await checkRegionKeys({ edge: edge.url, stranger: stranger.url, region: region.url }, findings);
    const captured = system.proxies.region.lastForwardedRequest;
    findings.check(captured !== undefined, () => "nothing was captured between edge and region");
    const cases = captured === undefined ? 0 : await checkReplays(region.url, captured, findings);
    return { figures: { cases }, problems: findings.problems };
  } finally {
    system.proxies.region.target = through;
    for (const part of [edge, stranger, region]) await part.stop();
  }
}

export const credentialFaults: readonly Scenario[] = [
  {
    group: "tenants",
    name: "the same input, and headers that are no part of a key",
    expected: "no answer crosses",
    run: runTenantIsolation,
  },
  {
    group: "credentials",
    name: "API keys: forged, expired, truncated",
    expected: "401, as quickly",
    run: runApiKeys,
  },
  {
    group: "credentials",
    name: "JWT: forged, expired, truncated, alg none, another key",
    expected: "401",
    run: runJwts,
  },
  {
    group: "credentials",
    name: "requests of the edge to the region: forged, truncated, replayed",
    expected: "401",
    run: runReplayedRequests,
  },
];
