// Bodies at the limit and beyond it, packed and in pieces: refused while they come, without being held.
import { gzipSync } from "node:zlib";
import { ask, jsonOf, type Question, type Reply, shown } from "../lib/ask.ts";
import { SURE, wrongAnswer, wrongRegionAnswer } from "../lib/intent.ts";
import { peakGrowthMiB } from "../lib/rss.ts";
import {
  createFindings,
  type Findings,
  type Reached,
  type Scenario,
  type Size,
} from "../lib/scenario.ts";
import { type Pieces, stream } from "../lib/stream-body.ts";
import type { World } from "../lib/world.ts";

const MIB = 1_048_576;
/** The defaults of src/http/config.ts and functions/region/settings.ts. */
const MAX_BODY = 262_144;
const MAX_IMAGE = 8 * MIB;
const MAX_TENSORS = 8 * MIB;
const MAX_GROWTH_MIB = 32;

const PREDICT = "/v1/models/intent/predict";
const INFER = "/v2/models/intent/infer";
const JSON_TYPE = { "content-type": "application/json" };
const infer = `{"inputs":[{"name":"input","shape":[1],"datatype":"BYTES","data":["${SURE.text}"]}]}`;
const predict = `{"inputs":"${SURE.text}","parameters":{"maxTier":"edge-int8"}}`;

const codeOf = ({ text }: Reply): string => {
  const body = jsonOf(text);
  return typeof body === "object" && body !== null
    ? String("code" in body ? body.code : "error" in body ? body.error : "")
    : "";
};
const isTooLarge = (reply: Reply) =>
  reply.status === 413 && /body_too_large|body is larger/.test(codeOf(reply));

interface Limit {
  readonly what: string;
  readonly atRegion?: boolean;
  readonly limit: number;
  /** A request whose body, unpacked, has so many bytes. */
  readonly make: (bytes: number) => Question;
  /** What a body within the limit gets: an answer, or a refusal for another reason. */
  readonly within: (reply: Reply) => boolean;
}

const isOk = ({ status }: Reply) => status === 200;
const isOtherRefusal = (reply: Reply) =>
  reply.status >= 400 && reply.status < 500 && !isTooLarge(reply);
const padded = (text: string, bytes: number) => text.padEnd(bytes);
const base64 = (bytes: number) => {
  const [head, tail] = ['{"inputs":{"b64":"', '"}}'];
  return `${head}${"A".repeat(bytes - head.length - tail.length)}${tail}`;
};
const atRegion = { atRegion: true, limit: MAX_TENSORS };

const limits: readonly Limit[] = [
  {
    what: "JSON under /v1",
    limit: MAX_BODY,
    make: (bytes) => ({ path: PREDICT, body: padded(predict, bytes) }),
    within: isOk,
  },
  {
    what: "a text under /v1",
    limit: MAX_BODY,
    make: (bytes) => ({
      path: PREDICT,
      headers: { "content-type": "text/plain" },
      body: "a".repeat(bytes),
    }),
    within: isOtherRefusal,
  },
  {
    what: "base64 under /v1",
    limit: MAX_BODY,
    make: (bytes) => ({ path: "/v1/models/vision/predict", body: base64(bytes) }),
    within: isOtherRefusal,
  },
  {
    what: "an image under /v1",
    limit: MAX_IMAGE,
    make: (bytes) => ({
      path: "/v1/models/intent/predict",
      headers: { "content-type": "image/png" },
      body: new Uint8Array(bytes),
    }),
    within: isOtherRefusal,
  },
  {
    what: "gzip under /v1",
    limit: MAX_BODY,
    make: (bytes) => ({
      path: PREDICT,
      headers: { ...JSON_TYPE, "content-encoding": "gzip" },
      body: gzipSync(padded(predict, bytes)),
    }),
    within: isOk,
  },
  {
    what: "JSON under /v2",
    limit: MAX_TENSORS,
    make: (bytes) => ({ path: INFER, body: padded(infer, bytes) }),
    within: isOk,
  },
  {
    what: "gzip under /v2",
    limit: MAX_TENSORS,
    make: (bytes) => ({
      path: INFER,
      headers: { ...JSON_TYPE, "content-encoding": "gzip" },
      body: gzipSync(padded(infer, bytes)),
    }),
    within: isOk,
  },
  {
    what: "JSON at the region",
    ...atRegion,
    make: (bytes) => ({ path: INFER, body: padded(infer, bytes) }),
    within: isOk,
  },
  {
    what: "gzip at the region",
    ...atRegion,
    make: (bytes) => ({
      path: INFER,
      headers: { ...JSON_TYPE, "content-encoding": "gzip" },
      body: gzipSync(padded(infer, bytes)),
    }),
    within: isOk,
  },
];

async function atLimits({ edge, region }: World): Promise<Reached> {
  const findings = createFindings();
  for (const { what, atRegion = false, limit, make, within } of limits) {
    for (const [bytes, isFine] of [
      [limit - 1, within],
      [limit, within],
      [limit + 1, isTooLarge],
    ] as const) {
      const reply = await ask(atRegion ? region.url : edge.url, make(bytes));
      findings.expect(isFine(reply), () => `${what} of ${bytes} bytes: ${shown(reply)}`);
    }
  }
  await checkAnswers(findings, edge.url, region.url);
  return { figures: { cases: 3 * limits.length }, problems: findings.problems };
}

async function checkAnswers(findings: Findings, edge: string, region: string): Promise<void> {
  for (const wrong of [await wrongAnswer(edge), await wrongRegionAnswer(region)])
    findings.expect(wrong === undefined, () => wrong ?? "");
}

const KILOBYTES = new Uint8Array(16_384).fill(0x20);
const SPACE = Uint8Array.of(0x20);
/** Under way between client and server when it is refused. */
const BUFFERED_BYTES = 16 * MIB;

interface Attack {
  readonly what: string;
  readonly send: (url: string, path: string) => Promise<Reply & { readonly sentBytes?: number }>;
  readonly statuses: readonly number[];
}

const pieces = (path: string, piece: Uint8Array, count: number): Pieces => ({
  path,
  headers: JSON_TYPE,
  piece,
  count,
});
const bomb = () => gzipSync(new Uint8Array(100 * MIB));
const packed = (body: Uint8Array): Attack => ({
  what: "100 MiB in 100 kB",
  send: (url, path) =>
    ask(url, { path, headers: { ...JSON_TYPE, "content-encoding": "gzip" }, body }),
  statuses: [400, 413, 415],
});
/** Where the server ends the connection while the client sends, the answer may be lost. */
const endless: Attack = {
  what: "a body without an end",
  send: (url, path) => stream(url, pieces(path, KILOBYTES, 100_000)),
  statuses: [413, 0],
};
const bytewise: Attack = {
  what: "65,537 chunks of a byte",
  send: (url, path) => stream(url, pieces(path, SPACE, 65_537)),
  statuses: [400, 413],
};

/** Some rounds show what the first ones take, and as many again whether it goes on. */
async function growth(
  world: World,
  { samples }: Size,
  attacks: readonly Attack[],
): Promise<Reached> {
  const findings = createFindings();
  const edge = await world.startEdge();
  const region = await world.startRegion({}, ["intent"]);
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
          for (const { what, send, statuses } of attacks) {
            const reply = await send(url, path);
            const { sentBytes = 0 } = reply;
            findings.expect(
              statuses.includes(reply.status),
              () => `${what} at ${path} of the ${name}: ${shown(reply)}`,
            );
            findings.expect(
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
        await peakGrowthMiB(pid, rounds),
        await peakGrowthMiB(pid, rounds),
      ];
      if (firstMiB === undefined || growthMiB === undefined) continue;
      figures[`${name}RssFirstGrowthMiB`] = firstMiB;
      figures[`${name}RssGrowthMiB`] = growthMiB;
      findings.expect(growthMiB < MAX_GROWTH_MIB, () => `the ${name} grew by ${growthMiB} MiB`);
    }
    await checkAnswers(findings, edge.url, region.url);
    return { figures, problems: findings.problems };
  } finally {
    await edge.stop();
    await region.stop();
  }
}

const row = "bodies";
const GROWTH = "413 or 400 while streaming, growth under 32 MiB";
export const bodies: readonly Scenario[] = [
  {
    row,
    name: "at the limit, a byte less, a byte more",
    expected: "taken at the limit, 413 beyond it",
    run: atLimits,
  },
  {
    row,
    name: "100 MiB in 100 kB, and one without an end",
    expected: GROWTH,
    run: (world, size) => growth(world, size, [packed(bomb()), endless]),
  },
  {
    row,
    name: "65,537 chunks of a byte",
    expected: GROWTH,
    run: (world, size) => growth(world, size, [bytewise]),
  },
];
