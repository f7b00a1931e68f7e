// Redis fails, or holds what no edge has written: answers stay right, and wait for it no longer than the time-out.
import { quantile } from "../../../src/toolchain/judge/latency.ts";
import type { Fault } from "../../support/fault-proxy.ts";
import { hasRedisServer } from "../../support/redis.ts";
import { ask, jsonOf, shown } from "../lib/ask.ts";
import { ODD, predict, SURE } from "../lib/intent.ts";
import { createFindings, type Reached, type Scenario, type Size } from "../lib/scenario.ts";
import { until } from "../lib/until.ts";
import type { World } from "../lib/world.ts";

const TIMEOUT_MS = 50;
/** Of a busy machine. */
const SLACK_MS = 40;
/** With fewer, a single stall of the machine is the 99th percentile. */
const SAMPLES_FOR_P99 = 459;
const L2_ONLY = { EDGETIER_L1_MAX_BYTES: "0", EDGETIER_REDIS_TIMEOUT_MS: String(TIMEOUT_MS) };

const faults: Readonly<Record<string, Fault>> = {
  refused: { kind: "refuses" },
  "reset after a while": { kind: "halfOpen", resetAfterMs: 20 },
  hanging: { kind: "hangs" },
  "500": { kind: "status", status: 500, body: '{"error":"ERR"}' },
  "401, as with a wrong password": { kind: "status", status: 401, body: '{"error":"WRONGPASS"}' },
  "200 with another body": { kind: "status", status: 200, body: "<html>" },
  "200 with another JSON": { kind: "status", status: 200, body: '{"result":{"a":[1]}}' },
  "cut off half-way": { kind: "cuts" },
  "a wrong byte": { kind: "flips", seed: 11 },
};

const needs = hasRedisServer ? undefined : "a redis-server on the PATH";

/** Each text is new, so that it is looked for in L2 and not found. */
let asked = 0;
async function latencies(
  edge: string,
  count: number,
  onAnswer: (label: string | undefined, reply: Parameters<typeof shown>[0]) => void,
): Promise<number[]> {
  const times: number[] = [];
  for (let index = 0; index < count; index++) {
    const { reply, output } = await predict(
      edge,
      `${SURE.text}${" ".repeat(1 + (asked++ % 900))}`,
      { cache: "use" },
    );
    onAnswer(output?.label, reply);
    times.push(reply.ms);
  }
  return times;
}

/** An edge for each, whose breaker knows nothing yet. */
async function failing(world: World, { samples }: Size): Promise<Reached> {
  const findings = createFindings();
  const figures = {
    faults: 0,
    requests: 0,
    addedP50MaxMs: 0,
    addedP90MaxMs: 0,
    addedP99MaxMs: 0,
    callsToRedisMax: 0,
  };
  for (const [how, fault] of Object.entries(faults)) {
    const edge = await world.startEdge(L2_ONLY);
    const check =
      (when: string) => (label: string | undefined, reply: Parameters<typeof shown>[0]) => {
        figures.requests++;
        findings.expect(label === SURE.label, () => `${when}: ${shown(reply)}`);
      };
    await latencies(edge.url, Math.ceil(samples / 4), check("without a fault"));
    const without = await latencies(edge.url, samples, check("without a fault"));
    world.proxies.redis.forget();
    world.proxies.redis.fault = fault;
    const withFault = await latencies(edge.url, samples, check(how));
    figures.callsToRedisMax = Math.max(figures.callsToRedisMax, world.proxies.redis.seen.length);
    world.heal();
    const added = (share: number) =>
      Math.max(0, quantile(withFault, share) - quantile(without, share));
    for (const share of samples < SAMPLES_FOR_P99 ? [0.5, 0.9] : [0.5, 0.9, 0.99]) {
      findings.expect(
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
async function hanging(world: World, { samples }: Size): Promise<Reached> {
  const findings = createFindings();
  const edge = await world.startEdge(L2_ONLY);
  try {
    const known = `${ODD.text} before`;
    const isFound = async () =>
      (await predict(edge.url, known, { cache: "use" })).reply.headers["x-edgetier-cache"] === "l2";
    findings.expect(
      (await until(isFound, RECOVERED_WITHIN_MS)) !== undefined,
      () => "L2 did not answer before Redis hung",
    );
    world.proxies.redis.forget();
    world.proxies.redis.fault = { kind: "hangs" };
    const times = await latencies(edge.url, 3 * samples, (label, reply) =>
      findings.expect(label === SURE.label, () => `hanging: ${shown(reply)}`),
    );
    const calls = world.proxies.redis.seen.length;
    const waited = times.filter((ms) => ms >= TIMEOUT_MS).length;
    findings.expect(
      calls <= times.length / 10,
      () => `Redis was asked ${calls} times by ${times.length} requests`,
    );
    world.heal();
    const recoveredMs = await until(isFound, RECOVERED_WITHIN_MS);
    findings.expect(
      recoveredMs !== undefined,
      () => "L2 did not answer again after Redis had hung",
    );
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

/** A Redis of the caller's own, as whoever has its token sees it. */
async function redisCommand({ redis }: World, ...command: readonly string[]): Promise<unknown> {
  const reply = await ask(redis?.url ?? "", {
    path: "/",
    headers: { authorization: `Bearer ${redis?.token}` },
    body: JSON.stringify(command),
  });
  const answer = jsonOf(reply.text);
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

async function poisoned(world: World): Promise<Reached> {
  const findings = createFindings();
  const edge = await world.startEdge({ ...L2_ONLY, EDGETIER_REDIS_TIMEOUT_MS: "1000" });
  let changed = 0;
  try {
    for (const [what, poison] of Object.entries(poisons)) {
      const text = `${ODD.text} ${what}`;
      const before = new Set(keysOf(await redisCommand(world, "KEYS", "*")));
      const first = await predict(edge.url, text, { cache: "use" });
      let key: string | undefined;
      const written = await until(
        async () =>
          (key = keysOf(await redisCommand(world, "KEYS", "*")).find((one) => !before.has(one))) !==
          undefined,
        10_000,
      );
      if (!findings.expect(written !== undefined, () => `${what}: nothing was written to L2`))
        continue;
      await redisCommand(
        world,
        "SET",
        key ?? "",
        poison(String(await redisCommand(world, "GET", key ?? ""))),
      );
      changed++;
      const again = await predict(edge.url, text, { cache: "use" });
      const isSame =
        again.output !== undefined && JSON.stringify(again.output) === JSON.stringify(first.output);
      findings.expect(
        isSame && again.reply.headers["x-edgetier-cache"] === "miss",
        () => `${what} in L2: ${shown(again.reply)}`,
      );
    }
    return { figures: { values: changed }, problems: findings.problems };
  } finally {
    await edge.stop();
  }
}

const keysOf = (result: unknown): string[] => (Array.isArray(result) ? result.map(String) : []);

const row = "Redis";
export const cacheFaults: readonly Scenario[] = [
  {
    row,
    name: "fails",
    expected: "right answers without L2, added latency at most the client time-out",
    needs,
    isSlow: true,
    run: failing,
  },
  {
    row,
    name: "hangs, and the breaker",
    expected: "its time-out once in a while, asked again when it is back",
    needs,
    run: hanging,
  },
  { row, name: "poisoned and truncated values", expected: "count as absent", needs, run: poisoned },
];
