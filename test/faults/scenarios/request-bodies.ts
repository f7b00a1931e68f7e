// Bodies at the limit and beyond it, compressed and chunked: rejected while they arrive, without buffering.
import { gzipSync } from "node:zlib";
import {
  sendRequest,
  tryParseJson,
  type HttpRequest,
  type HttpReply,
  formatReply,
} from "../lib/http-client.ts";
import { CONFIDENT_SAMPLE, findEdgeProblem, findRegionProblem } from "../lib/intent-checks.ts";
import { measurePeakGrowthMiB } from "../lib/process-memory.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import { type ChunkedRequest, streamBody } from "../lib/stream-body.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";

const MIB = 1_048_576;
/** The defaults of src/http/config.ts and functions/region/settings.ts. */
const MAX_BODY = 262_144;
const MAX_IMAGE = 8 * MIB;
const MAX_TENSORS = 8 * MIB;
const MAX_GROWTH_MIB = 32;

const PREDICT = "/v1/models/intent/predict";
const INFER = "/v2/models/intent/infer";
const JSON_TYPE = { "content-type": "application/json" };
const infer = `{"inputs":[{"name":"input","shape":[1],"datatype":"BYTES","data":["${CONFIDENT_SAMPLE.text}"]}]}`;
const predict = `{"inputs":"${CONFIDENT_SAMPLE.text}","parameters":{"maxTier":"edge-int8"}}`;

const codeOf = ({ text }: HttpReply): string => {
  const body = tryParseJson(text);
  return typeof body === "object" && body !== null
    ? String("code" in body ? body.code : "error" in body ? body.error : "")
    : "";
};
const isTooLarge = (reply: HttpReply) =>
  reply.status === 413 && /body_too_large|body is larger/.test(codeOf(reply));

interface BodyLimitCase {
  readonly description: string;
  readonly isAtRegion?: boolean;
  readonly limitBytes: number;
  /** Creates a request whose decompressed body has the given number of bytes. */
  readonly createRequest: (bytes: number) => HttpRequest;
  /** Whether a reply is one to a body within the limit: an answer, or a rejection for another reason. */
  readonly isAccepted: (reply: HttpReply) => boolean;
}

const isOk = ({ status }: HttpReply) => status === 200;
const isOtherRefusal = (reply: HttpReply) =>
  reply.status >= 400 && reply.status < 500 && !isTooLarge(reply);
const padded = (text: string, bytes: number) => text.padEnd(bytes);
const base64 = (bytes: number) => {
  const [head, tail] = ['{"inputs":{"b64":"', '"}}'];
  return `${head}${"A".repeat(bytes - head.length - tail.length)}${tail}`;
};
const atRegion = { isAtRegion: true, limitBytes: MAX_TENSORS };

const bodyLimitCases: readonly BodyLimitCase[] = [
  {
    description: "JSON under /v1",
    limitBytes: MAX_BODY,
    createRequest: (bytes) => ({ path: PREDICT, body: padded(predict, bytes) }),
    isAccepted: isOk,
  },
  {
    description: "a text under /v1",
    limitBytes: MAX_BODY,
    createRequest: (bytes) => ({
      path: PREDICT,
      headers: { "content-type": "text/plain" },
      body: "a".repeat(bytes),
    }),
    isAccepted: isOtherRefusal,
  },
  {
    description: "base64 under /v1",
    limitBytes: MAX_BODY,
    createRequest: (bytes) => ({ path: "/v1/models/vision/predict", body: base64(bytes) }),
    isAccepted: isOtherRefusal,
  },
  {
    description: "an image under /v1",
    limitBytes: MAX_IMAGE,
    createRequest: (bytes) => ({
      path: "/v1/models/intent/predict",
      headers: { "content-type": "image/png" },
      body: new Uint8Array(bytes),
    }),
    isAccepted: isOtherRefusal,
  },
  {
    description: "gzip under /v1",
    limitBytes: MAX_BODY,
    createRequest: (bytes) => ({
      path: PREDICT,
      headers: { ...JSON_TYPE, "content-encoding": "gzip" },
      body: gzipSync(padded(predict, bytes)),
    }),
    isAccepted: isOk,
  },
  {
    description: "JSON under /v2",
    limitBytes: MAX_TENSORS,
    createRequest: (bytes) => ({ path: INFER, body: padded(infer, bytes) }),
    isAccepted: isOk,
  },
  {
    description: "gzip under /v2",
    limitBytes: MAX_TENSORS,
    createRequest: (bytes) => ({
      path: INFER,
      headers: { ...JSON_TYPE, "content-encoding": "gzip" },
      body: gzipSync(padded(infer, bytes)),
    }),
    isAccepted: isOk,
  },
  {
    description: "JSON at the region",
    ...atRegion,
    createRequest: (bytes) => ({ path: INFER, body: padded(infer, bytes) }),
    isAccepted: isOk,
  },
  {
    description: "gzip at the region",
    ...atRegion,
    createRequest: (bytes) => ({
      path: INFER,
      headers: { ...JSON_TYPE, "content-encoding": "gzip" },
      body: gzipSync(padded(infer, bytes)),
    }),
    isAccepted: isOk,
  },
];

async function runBodyLimits({ edge, region }: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  for (const {
    description: what,
    isAtRegion: atRegion = false,
    limitBytes: limit,
    createRequest: make,
    isAccepted: within,
  } of bodyLimitCases) {
    for (const [bytes, isFine] of [
      [limit - 1, within],
      [limit, within],
      [limit + 1, isTooLarge],
    ] as const) {
      const reply = await sendRequest(atRegion ? region.url : edge.url, make(bytes));
      findings.check(isFine(reply), () => `${what} of ${bytes} bytes: ${formatReply(reply)}`);
    }
  }
  await checkPredictions(findings, edge.url, region.url);
  return { figures: { cases: 3 * bodyLimitCases.length }, problems: findings.problems };
}

async function checkPredictions(
  findings: ProblemCollector,
  edge: string,
  region: string,
): Promise<void> {
  for (const wrong of [await findEdgeProblem(edge), await findRegionProblem(region)])
    findings.check(wrong === undefined, () => wrong ?? "");
}

const KILOBYTES = new Uint8Array(16_384).fill(0x20);
const SPACE = Uint8Array.of(0x20);
/** Maximum number of bytes in flight when the server rejects a body. */
const BUFFERED_BYTES = 16 * MIB;

interface BodyAttack {
  readonly description: string;
  readonly send: (
    url: string,
    path: string,
  ) => Promise<HttpReply & { readonly sentBytes?: number }>;
  readonly allowedStatuses: readonly number[];
}

const createChunks = (path: string, piece: Uint8Array, count: number): ChunkedRequest => ({
  path,
  headers: JSON_TYPE,
  chunk: piece,
  chunkCount: count,
});
const createZipBomb = () => gzipSync(new Uint8Array(100 * MIB));
const compressedAttack = (body: Uint8Array): BodyAttack => ({
  description: "100 MiB in 100 kB",
  send: (url, path) =>
    sendRequest(url, { path, headers: { ...JSON_TYPE, "content-encoding": "gzip" }, body }),
  allowedStatuses: [400, 413, 415],
});
/** Endless body; its answer may be lost, because the server closes the connection while the client sends. */
const endlessAttack: BodyAttack = {
  description: "a body without an end",
  send: (url, path) => streamBody(url, createChunks(path, KILOBYTES, 100_000)),
  allowedStatuses: [413, 0],
};
const bytewiseAttack: BodyAttack = {
  description: "65,537 chunks of a byte",
  send: (url, path) => streamBody(url, createChunks(path, SPACE, 65_537)),
  allowedStatuses: [400, 413],
};

/** Some rounds show what the first ones take, and as many again whether it goes on. */
async function runMemoryGrowth(
  system: FaultSystem,
  { samples }: ScenarioSize,
  attacks: readonly BodyAttack[],
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge();
  const region = await system.startRegion({}, ["intent"]);
  const figures: Record<string, number> = {};
  const count = Math.min(8, Math.ceil(samples / 40));
  const targets = [
    { name: "edge", url: edge.url, pid: edge.pid, paths: [PREDICT, INFER] },
    { name: "region", url: region.url, pid: region.pid, paths: [INFER] },
  ];
  try {
    for (const { name, url, pid, paths } of targets) {
      const attack = async () => {
        for (const path of paths) {
          for (const { description: what, send, allowedStatuses: statuses } of attacks) {
            const reply = await send(url, path);
            const { sentBytes = 0 } = reply;
            findings.check(
              statuses.includes(reply.status),
              () => `${what} at ${path} of the ${name}: ${formatReply(reply)}`,
            );
            findings.check(
              sentBytes < MAX_TENSORS + BUFFERED_BYTES,
              () => `the ${name} took ${sentBytes} bytes of ${what} at ${path}`,
            );
            figures[`${name}TookMiB`] = Math.max(figures[`${name}TookMiB`] ?? 0, sentBytes / MIB);
          }
        }
      };
      const rounds = async () => {
        for (let round = 0; round < count; round++) await attack();
      };
      const [firstMiB, growthMiB] = [
        await measurePeakGrowthMiB(pid, rounds),
        await measurePeakGrowthMiB(pid, rounds),
      ];
      if (firstMiB === undefined || growthMiB === undefined) continue;
      figures[`${name}RssFirstGrowthMiB`] = firstMiB;
      figures[`${name}RssGrowthMiB`] = growthMiB;
      findings.check(growthMiB < MAX_GROWTH_MIB, () => `the ${name} grew by ${growthMiB} MiB`);
    }
    await checkPredictions(findings, edge.url, region.url);
    return { figures, problems: findings.problems };
  } finally {
    await edge.stop();
    await region.stop();
  }
}

const row = "bodies";
const GROWTH = "413 or 400 while streaming, growth under 32 MiB";
export const requestBodies: readonly Scenario[] = [
  {
    group: row,
    name: "at the limit, a byte less, a byte more",
    expected: "taken at the limit, 413 beyond it",
    run: runBodyLimits,
  },
  {
    group: row,
    name: "100 MiB in 100 kB, and one without an end",
    expected: GROWTH,
    run: (system, size) =>
      runMemoryGrowth(system, size, [compressedAttack(createZipBomb()), endlessAttack]),
  },
  {
    group: row,
    name: "65,537 chunks of a byte",
    expected: GROWTH,
    run: (system, size) => runMemoryGrowth(system, size, [bytewiseAttack]),
  },
];
