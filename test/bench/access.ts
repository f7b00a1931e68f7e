// `npm run bench:access`: the cost of authentication and rate limits. Measures serial L1 hits of the
// Worker in workerd alone. Edges with different configurations alternate, so that all see the same machine.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { generateQueries } from "../../src/cli/load/query-generator.ts";
import { startLocalSystem } from "../../src/cli/local/system.ts";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { type WorkerdEdge, startWorkerdEdge } from "../../src/cli/local/workerd-edge.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import {
  AUDIENCE,
  ISSUER,
  createTestApiKey,
  createTestIssuer,
  createValidClaims,
} from "../support/test-credentials.ts";
import { createSender, type Send, summarizeLatencies } from "./lib/checked-load.ts";
import { createRandom } from "./lib/random.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    help: { type: "boolean" },
  },
});
if (values.help === true) {
  console.log("npm run bench:access -- [--n calls per case] [--seed s]");
  process.exit(0);
}
const [n, seed] = [Number(values.n), Number(values.seed)];
const CALLS_PER_TURN = 50;
const WARM_UP_CALLS = 200;
const QUERIES = 20;

interface AccessCase {
  readonly name: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly credential?: string;
}

interface Running extends AccessCase {
  readonly edge: WorkerdEdge;
  readonly send: Send & { close(): void };
  readonly latenciesMs: number[];
}

const folder = await mkdtemp(join(tmpdir(), "edgetier-bench-"));
const upload = await bundleWorker(join(folder, "worker.bundle"));
const system = await startLocalSystem({
  stateFolder: join(folder, "state"),
  withRegion: false,
  log: console.error,
});
const running: Running[] = [];
try {
  for (const accessCase of await createCases()) {
    const edge = await startWorkerdEdge(upload, {
      ...toS3Variables(system.store),
      ...accessCase.variables,
    });
    running.push({ ...accessCase, edge, send: createSender(edge.url, 1), latenciesMs: [] });
  }
  const random = createRandom(seed);
  const queries = generateQueries(QUERIES, seed).map((query) =>
    JSON.stringify({ inputs: query, parameters: { maxTier: "edge-int8" } }),
  );
  const call = async ({ send, credential }: Running) => {
    const reply = await send({
      path: "/v1/models/intent/predict",
      body: random.pick(queries),
      ...(credential === undefined ? {} : { headers: { authorization: `Bearer ${credential}` } }),
    });
    if (reply.status !== 200)
      throw new Error(`status ${reply.status}: ${reply.body.slice(0, 200)}`);
  };
  for (const target of running)
    for (let count = 0; count < WARM_UP_CALLS; count++) await call(target);
  for (let done = 0; done < n; done += CALLS_PER_TURN) {
    for (const target of running) {
      for (let count = 0; count < CALLS_PER_TURN; count++) {
        const startedAtMs = performance.now();
        await call(target);
        target.latenciesMs.push(performance.now() - startedAtMs);
      }
    }
  }
} finally {
  for (const { edge, send } of running) {
    send.close();
    await edge.stop();
  }
  await system.stop();
  await rm(folder, { recursive: true, force: true });
}

const [open] = running.map(({ latenciesMs }) => summarizeLatencies(latenciesMs).p50Ms);
const rows = running.map(({ name, latenciesMs }) => {
  const latencies = summarizeLatencies(latenciesMs);
  return {
    case: name,
    ...latencies,
    addedP50Ms: roundToFourDigits(latencies.p50Ms - (open ?? Number.NaN)),
  };
});
const notes = [
  "Redis and its REST interface stand on the same machine: elsewhere the round trip to Redis comes in place of theirs.",
];
await writeBenchReport({
  name: "access",
  seed,
  n,
  packages: ["hono", "@upstash/redis", "wrangler"],
  notes,
  rows,
  figures: { redisLimitAddedP50Ms: rows.at(-1)?.addedP50Ms ?? Number.NaN },
});

async function createCases(): Promise<AccessCase[]> {
  const { key, entry } = await createTestApiKey();
  const others = await Promise.all(
    Array.from({ length: 20 }, (_, count) => createTestApiKey({ id: `other-${count}` })),
  );
  const keys = {
    EDGETIER_API_KEYS: JSON.stringify([...others.map((other) => other.entry), entry]),
  };
  const unlimited = { EDGETIER_RATE_LIMIT: "1000000/60" };
  const tokens = async (algorithm: "RS256" | "ES256" | "EdDSA"): Promise<AccessCase> => {
    const issuer = await createTestIssuer(algorithm);
    const variables = {
      EDGETIER_JWT_ISSUER: ISSUER,
      EDGETIER_JWT_AUDIENCE: AUDIENCE,
      EDGETIER_JWT_ALGORITHM: algorithm,
      EDGETIER_JWT_JWKS: JSON.stringify(issuer.jwks),
    };
    return {
      name: `token, ${algorithm}`,
      variables,
      credential: await issuer.sign(createValidClaims(Date.now() + 3_600_000)),
    };
  };
  const redis = system.urls.redis;
  const shared =
    redis === undefined
      ? []
      : [
          {
            name: "one of 21 keys, limit shared through Redis",
            variables: {
              ...keys,
              ...unlimited,
              EDGETIER_REDIS_REST_URL: redis,
              EDGETIER_REDIS_REST_TOKEN: system.redisToken ?? "",
              EDGETIER_REDIS_TIMEOUT_MS: "1000",
            },
            credential: key,
          },
        ];
  return [
    { name: "open", variables: {} },
    { name: "one of 21 keys", variables: keys, credential: key },
    await tokens("RS256"),
    await tokens("ES256"),
    await tokens("EdDSA"),
    {
      name: "one of 21 keys, limit in the isolate",
      variables: { ...keys, ...unlimited },
      credential: key,
    },
    ...shared,
  ];
}
