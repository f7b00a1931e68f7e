// Redis fails, or holds what no edge has written: answers stay right, and wait for it no longer than the time-out.
import { quantile } from "../../../src/toolchain/evaluate/latency.ts";
import type { Fault } from "../../support/fault-proxy.ts";
import { hasRedisServer } from "../../support/redis.ts";
import { sendRequest, tryParseJson, formatReply } from "../lib/http-client.ts";
import { OUT_OF_SCOPE_SAMPLE, predict, CONFIDENT_SAMPLE } from "../lib/intent-checks.ts";
import {
  createProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";
import { waitUntil } from "../lib/wait-until.ts";

const TIMEOUT_MS = 50;
/** Additional latency of a busy machine. */
const SLACK_MS = 40;
/** With fewer, a single stall of the machine is the 99th percentile. */
const SAMPLES_FOR_P99 = 459;
const L2_ONLY = { EDGETIER_L1_MAX_BYTES: "0", EDGETIER_REDIS_TIMEOUT_MS: String(TIMEOUT_MS) };

const faults: Readonly<Record<string, Fault>> = {
  refused: { kind: "resets" },
  "reset after a while": { kind: "halfOpen", resetAfterMs: 20 },
  hanging: { kind: "hangs" },
  "500": { kind: "status", status: 500, body: '{"error":"ERR"}' },
  "401, as with a wrong password": { kind: "status", status: 401, body: '{"error":"WRONGPASS"}' },
  "200 with another body": { kind: "status", status: 200, body: "<html>" },
  "200 with another JSON": { kind: "status", status: 200, body: '{"result":{"a":[1]}}' },
  "cut off half-way": { kind: "truncates" },
  "a wrong byte": { kind: "corrupts", seed: 11 },
};

const needs = hasRedisServer ? undefined : "a redis-server on the PATH";

/** Each text is new, so that it is looked for in L2 and not found. */
let asked = 0;
async function measureLatencies(
  edge: string,
  count: number,
  onAnswer: (label: string | undefined, reply: Parameters<typeof formatReply>[0]) => void,
): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const { reply, output } = await predict(
      edge,
      `${CONFIDENT_SAMPLE.text}${" ".repeat(1 + (asked++ % 900))}`,
      { cache: "use" },
    );
    onAnswer(output?.label, reply);
    times.push(reply.durationMs);
  }
  return times;
}

/** An edge for each, whose breaker knows nothing yet. */
async function runFailingRedis(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const figures = {
    faults: 0,
    requests: 0,
    addedP50MaxMs: 0,
    addedP90MaxMs: 0,
    addedP99MaxMs: 0,
    callsToRedisMax: 0,
  };
  for (const [how, fault] of Object.entries(faults)) {
    const edge = await system.startEdge(L2_ONLY);
    const check =
      (when: string) => (label: string | undefined, reply: Parameters<typeof formatReply>[0]) => {
        figures.requests++;
        findings.check(label === CONFIDENT_SAMPLE.label, () => `${when}: ${formatReply(reply)}`);
      };
    await measureLatencies(edge.url, Math.ceil(samples / 4), check("without a fault"));
    const without = await measureLatencies(edge.url, samples, check("without a fault"));
    system.proxies.redis.clearHistory();
    system.proxies.redis.fault = fault;
    const withFault = await measureLatencies(edge.url, samples, check(how));
    figures.callsToRedisMax = Math.max(
      figures.callsToRedisMax,
      system.proxies.redis.receivedRequests.length,
    );
    system.clearFaults();
    const added = (share: number) =>
      Math.max(0, quantile(withFault, share) - quantile(without, share));
    for (const share of samples < SAMPLES_FOR_P99 ? [0.5, 0.9] : [0.5, 0.9, 0.99]) {
      findings.check(
        added(share) < TIMEOUT_MS + SLACK_MS,
        () =>
          `${how} added ${added(share)} ms to the ${share} quantile; the time-out is ${TIMEOUT_MS} ms`,
      );
    }
    figures.addedP50MaxMs = Math.max(figures.addedP50MaxMs, added(0.5));
    figures.addedP90MaxMs = Math.max(figures.addedP90MaxMs, added(0.9));
    figures.addedP99MaxMs = Math.max(figures.addedP99MaxMs, added(0.99));
    figures.faults++;
    await edge.stop();
  }
  return { figures, problems: findings.problems };
}

const RECOVERED_WITHIN_MS = 60_000;

/** While Redis hangs, one request in a while waits for the time-out, and no other. */
async function runHangingRedis(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge(L2_ONLY);
  try {
    const known = `${OUT_OF_SCOPE_SAMPLE.text} before`;
    const isFound = async () =>
      (await predict(edge.url, known, { cache: "use" })).reply.headers["x-edgetier-cache"] === "l2";
    findings.check(
      (await waitUntil(isFound, RECOVERED_WITHIN_MS)) !== undefined,
      () => "L2 did not answer before Redis hung",
    );
    system.proxies.redis.clearHistory();
    system.proxies.redis.fault = { kind: "hangs" };
    const times = await measureLatencies(edge.url, 3 * samples, (label, reply) =>
      findings.check(label === CONFIDENT_SAMPLE.label, () => `hanging: ${formatReply(reply)}`),
    );
    const calls = system.proxies.redis.receivedRequests.length;
    const waited = times.filter((ms) => ms >= TIMEOUT_MS).length;
    findings.check(
      calls <= times.length / 10,
      () => `Redis was asked ${calls} times by ${times.length} requests`,
    );
    system.clearFaults();
    const recoveredMs = await waitUntil(isFound, RECOVERED_WITHIN_MS);
    findings.check(recoveredMs !== undefined, () => "L2 did not answer again after Redis had hung");
    return {
      figures: {
        requests: times.length,
        callsToRedis: calls,
        atLeastTheTimeOut: waited,
        p50Ms: quantile(times, 0.5),
        recoverMs: Math.round(recoveredMs ?? RECOVERED_WITHIN_MS),
      },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

/** Runs a command on the Redis of the system, with its token. */
async function runRedisCommand(
  { redis }: FaultSystem,
  ...command: readonly string[]
): Promise<unknown> {
  const reply = await sendRequest(redis?.url ?? "", {
    path: "/",
    headers: { authorization: `Bearer ${redis?.token}` },
    body: JSON.stringify(command),
  });
  const answer = tryParseJson(reply.text);
  return typeof answer === "object" && answer !== null && "result" in answer
    ? answer.result
    : undefined;
}

const base64 = (text: string) => Buffer.from(text).toString("base64");
const poisons: Readonly<Record<string, (value: string) => string>> = {
  nothing: () => "",
  "no base64": () => "\u0000!!",
  "half of it": (value) => value.slice(0, value.length >> 1),
  "a byte less": (value) => value.slice(0, -4),
  "a byte more": (value) => `${value}QQ==`,
  "no JSON": () => base64("{"),
  "another JSON": () => base64('{"label":1,"scores":{}}'),
  null: () => base64("null"),
  "a prototype": () => base64('{"__proto__":{"label":"x"}}'),
  "a megabyte": () => base64("x".repeat(1_000_000)),
};

async function runPoisonedValues(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge({ ...L2_ONLY, EDGETIER_REDIS_TIMEOUT_MS: "1000" });
  let changed = 0;
  try {
    for (const [what, poison] of Object.entries(poisons)) {
      const text = `${OUT_OF_SCOPE_SAMPLE.text} ${what}`;
      const before = new Set(keysOf(await runRedisCommand(system, "KEYS", "*")));
      const first = await predict(edge.url, text, { cache: "use" });
      let key: string | undefined;
      const written = await waitUntil(
        async () =>
          (key = keysOf(await runRedisCommand(system, "KEYS", "*")).find(
            (one) => !before.has(one),
          )) !== undefined,
        10_000,
      );
      if (!findings.check(written !== undefined, () => `${what}: nothing was written to L2`))
        continue;
      await runRedisCommand(
        system,
        "SET",
        key ?? "",
        poison(String(await runRedisCommand(system, "GET", key ?? ""))),
      );
      changed++;
      const again = await predict(edge.url, text, { cache: "use" });
      const isSame =
        again.output !== undefined && JSON.stringify(again.output) === JSON.stringify(first.output);
      findings.check(
        isSame && again.reply.headers["x-edgetier-cache"] === "miss",
        () => `${what} in L2: ${formatReply(again.reply)}`,
      );
    }
    return { figures: { values: changed }, problems: findings.problems };
  } finally {
    await edge.stop();
  }
}

const keysOf = (result: unknown): string[] => (Array.isArray(result) ? result.map(String) : []);

const row = "Redis";
export const redisFaults: readonly Scenario[] = [
  {
    group: row,
    name: "fails",
    expected: "right answers without L2, added latency at most the client time-out",
    missingRequirement: needs,
    isSlow: true,
    run: runFailingRedis,
  },
  {
    group: row,
    name: "hangs, and the breaker",
    expected: "its time-out once in a while, asked again when it is back",
    missingRequirement: needs,
    run: runHangingRedis,
  },
  {
    group: row,
    name: "poisoned and truncated values",
    expected: "count as absent",
    missingRequirement: needs,
    run: runPoisonedValues,
  },
];
