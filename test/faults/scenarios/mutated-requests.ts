// Requests made wrong in thousands of ways, over all routes and verbs, at the edge and at the region.
import { encodeInferRequest, type InferRequest } from "../../../src/protocol/open-inference.ts";
import { createRequestMutator, type RawRequest } from "../../support/mutate-request.ts";
import { IDENTITY_DATATYPES } from "../../support/tensor-model.ts";
import {
  sendRequest,
  runConcurrently,
  isLateOrUnsupported,
  formatReply,
} from "../lib/http-client.ts";
import {
  OUT_OF_SCOPE_SAMPLE,
  CONFIDENT_SAMPLE,
  findEdgeProblem,
  findRegionProblem,
} from "../lib/intent-checks.ts";
import {
  createProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";

const SEED = 20_261_122;
const CONCURRENCY = 8;
const CHECK_EVERY = 250;
const LOG_INTERVAL_REQUESTS = 10_000;
/** One that nobody answers blocks nobody else. */
const TIMEOUT_MS = 15_000;
const JSON_LENGTH = "inference-header-content-length";

const encode = (text: string) => new TextEncoder().encode(text);
const get = (path: string): RawRequest => ({ method: "GET", path, headers: {}, body: undefined });
const post = (path: string, body: string, headers: Record<string, string> = {}): RawRequest => ({
  method: "POST",
  path,
  headers: { "content-type": "application/json", ...headers },
  body: encode(body),
});

function infer(model: string, request: InferRequest, isBinary: boolean): RawRequest {
  const { body, jsonBytes } = encodeInferRequest(request, isBinary);
  return {
    method: "POST",
    path: `/v2/models/${model}/infer`,
    headers: jsonBytes === undefined ? {} : { [JSON_LENGTH]: String(jsonBytes) },
    body,
  };
}

const jsonAndBinary = (model: string, request: InferRequest) =>
  [false, true].map((isBinary) => infer(model, request, isBinary));
const texts = {
  datatype: "BYTES",
  shape: [2],
  data: [encode(CONFIDENT_SAMPLE.text), encode(OUT_OF_SCOPE_SAMPLE.text)],
} as const;
const x = { datatype: "UINT8", shape: [2, 3], data: Uint8Array.of(1, 2, 3, 4, 5, 6) } as const;
const all = IDENTITY_DATATYPES.map((datatype) => ({
  name: `${datatype.toLowerCase()}_in`,
  datatype,
  shape: [0],
  ...(datatype === "FP16" ? { parameters: { binary_data_size: 0 } } : { data: [] }),
}));

const openInference: readonly RawRequest[] = [
  ...jsonAndBinary("intent", {
    id: "1",
    inputs: { input: texts },
    outputs: [{ name: "logits", parameters: { classification: 1 } }],
  }),
  ...jsonAndBinary("far", { inputs: { x }, outputs: [{ name: "y" }] }),
  ...jsonAndBinary("words", { inputs: { x: texts }, parameters: { binary_data_output: true } }),
  post("/v2/models/identity/infer", JSON.stringify({ inputs: all })),
  {
    method: "POST",
    path: "/v2/models/far/infer",
    headers: { [JSON_LENGTH]: "0" },
    body: Uint8Array.of(1, 2, 3),
  },
  ...[
    "/v2",
    "/v2/health/live",
    "/v2/health/ready",
    "/v2/models/intent",
    "/v2/models/far/ready",
    "/v2/models/intent/versions/1/ready",
  ].map(get),
];
const edgeCorpus: readonly RawRequest[] = [
  ...openInference,
  post(
    "/v1/models/intent/predict",
    JSON.stringify({
      inputs: [CONFIDENT_SAMPLE.text, OUT_OF_SCOPE_SAMPLE.text],
      parameters: { topK: 3, maxTier: "edge-int8", cache: "bypass" },
    }),
  ),
  post("/v1/models/intent/predict?topK=2", CONFIDENT_SAMPLE.text, {
    "content-type": "text/plain",
    "x-deadline-ms": "9000",
  }),
  {
    ...post("/v1/models/intent@stable/predict", JSON.stringify({ inputs: CONFIDENT_SAMPLE.text })),
    method: "QUERY",
  },
  post("/v1/models/vision/predict", "GIF89a", { "content-type": "image/png" }),
  post(
    "/v1/embeddings",
    JSON.stringify({
      model: "intent",
      input: ["a", "b"],
      encoding_format: "base64",
      dimensions: 2,
    }),
  ),
  ...[
    "/v1/models/intent/predict?input=what+is+my+balance&topK=2",
    "/v1/models",
    "/v1/models/intent@1",
    "/openapi.json",
    "/docs",
    "/",
  ].map(get),
];
const regionCorpus: readonly RawRequest[] = [
  ...openInference,
  ...[
    "/v2/models/stats",
    "/v2/models/intent/stats",
    "/v2/models/intent/versions/1/config",
    "/v2/trace/setting",
    "/metrics",
  ].map(get),
  post("/v2/repository/index", '{"ready":true}'),
  post("/v2/repository/models/words/load", '{"parameters":{}}'),
];
/** Would take away what the next requests ask for. */
const isUnload = ({ path }: RawRequest) => path.includes("unload");

interface AttackTarget {
  readonly url: string;
  readonly corpus: readonly RawRequest[];
  readonly wrongAnswer: (url: string) => Promise<string | undefined>;
}

function computeStatusShares(statuses: ReadonlyMap<number, number>, count: number) {
  const share = (from: number, to: number) =>
    [...statuses].reduce(
      (sum, [status, times]) => (status >= from && status < to ? sum + times : sum),
      0,
    ) / count;
  return {
    answered: share(200, 400),
    refused: share(400, 500),
    serverErrors: share(500, 600),
    cutOff: share(0, 1),
  };
}

async function sendMutants(
  { url, corpus, wrongAnswer }: AttackTarget,
  count: number,
  log: FaultSystem["log"],
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const mutated = createRequestMutator(SEED, corpus);
  const statuses = new Map<number, number>();
  let slowestMs = 0;
  await runConcurrently(count, CONCURRENCY, async (index) => {
    const request = mutated();
    if (!isUnload(request)) {
      // A length that promises more than comes is only over when the client says so.
      const endsHere = request.headers["content-length"] !== undefined;
      const reply = await sendRequest(url, {
        ...request,
        path: printable(request.path),
        isHalfClosed: endsHere,
        timeoutMs: TIMEOUT_MS,
      }).catch((error: Error) => ({
        status: 400,
        text: error.message,
        durationMs: 0,
        headers: {},
      })); // Node's client rejects the request
      statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1);
      slowestMs = Math.max(slowestMs, reply.durationMs);
      const isFine =
        reply.status === 0 ? endsHere : reply.status < 500 || isLateOrUnsupported(reply);
      const isShort = reply.status === 200 || reply.text.length < 2_500;
      findings.check(
        isFine && isShort,
        () =>
          `request ${index} ${request.method} ${request.path.slice(0, 100)} ${JSON.stringify(request.headers)} got ${formatReply(reply)}`,
      );
    }
    if (index % CHECK_EVERY === 0) await check();
    if (index > 0 && index % LOG_INTERVAL_REQUESTS === 0) log(`  ${index} requests`);
  });
  await check();

  async function check(): Promise<void> {
    const wrong = await wrongAnswer(url);
    findings.check(wrong === undefined, () => wrong ?? "");
  }
  const figures = {
    requests: count,
    ...computeStatusShares(statuses, count),
    slowestMs: Math.round(slowestMs),
  };
  // Some are rejected and some accepted, so the mutations are neither too wild nor too tame.
  findings.check(
    figures.answered > 0.05 && figures.refused > 0.2,
    () => `${figures.answered} of the requests were answered and ${figures.refused} rejected`,
  );
  return { figures, problems: findings.problems };
}

const printable = (path: string) => path.replace(/[^\x21-\x7e]/gu, encodeURIComponent);

const shared = {
  group: "mutated requests",
  expected: "no 5xx from parsing, alive, next request right",
} as const;

export const mutatedRequests: readonly Scenario[] = [
  {
    ...shared,
    name: "at the edge",
    run: ({ edge, log }, { mutatedRequests }: ScenarioSize) =>
      sendMutants(
        { url: edge.url, corpus: edgeCorpus, wrongAnswer: findEdgeProblem },
        mutatedRequests,
        log,
      ),
  },
  {
    ...shared,
    name: "at the region",
    run: ({ region, log }, { mutatedRequests }: ScenarioSize) =>
      sendMutants(
        { url: region.url, corpus: regionCorpus, wrongAnswer: findRegionProblem },
        mutatedRequests,
        log,
      ),
  },
];
