// `npm run bench:load`: compares `edgetier bench` with oha (open loop, corrected for coordinated omission) and hey (closed
// loop). They alternate at one rate on a server of known latencies, then on the same server with occasional stalls.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { parseArgs, promisify } from "node:util";
import { loadReportSchema } from "../../src/cli/load/report-schema.ts";
import { quantile } from "../../src/toolchain/evaluate/latency.ts";
import { startTestHttpServer } from "../support/test-http-server.ts";
import { createRandom } from "./lib/random.ts";
import { writeBenchReport, roundToFourDigits } from "./lib/report.ts";

const { values } = parseArgs({
  options: {
    rate: { type: "string", default: "300" },
    seconds: { type: "string", default: "10" },
    rounds: { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
    oha: { type: "string", default: "oha" },
    hey: { type: "string", default: "hey" },
    help: { type: "boolean" },
  },
});
if (values.help === true) {
  console.log(
    "npm run bench:load -- [--rate calls a second] [--seconds of each] [--rounds r] [--seed s] [--oha binary: cargo install oha] [--hey binary: apt-get install hey]",
  );
  process.exit(0);
}
const [rate, seconds, rounds, seed] = [
  Number(values.rate),
  Number(values.seconds),
  Number(values.rounds),
  Number(values.seed),
];

const CONNECTIONS = 100;
const BODY = JSON.stringify({ inputs: "how do i freeze my account" });
const ANSWER = JSON.stringify({ outputs: [{ label: "a", degraded: false }] });
const EDGETIER = join(import.meta.dirname, "../../src/cli/edgetier.ts");
/** 90 of 100 answers take 5 ms, 8 take 20, and 2 take 60, by the server's timer. */
const DELAYS = [
  { below: 0.9, ms: 5 },
  { below: 0.98, ms: 20 },
  { below: 1, ms: 60 },
];
const STALL = { everyMs: 2_500, ms: 400 };
/** Two of 100 answers take 60 ms, so these percentiles lie inside a step of the server's latencies, not between two. */
const PERCENTILES = { p50Ms: 0.5, p95Ms: 0.95, p99Ms: 0.99 } as const;

type LoadFigures = Record<keyof typeof PERCENTILES | "maxMs" | "perSecond", number>;

interface Tool {
  readonly name: string;
  measure(url: string, bodyFile: string): Promise<LoadFigures>;
}

const run = async (command: string, args: readonly string[]): Promise<string> =>
  (await promisify(execFile)(command, [...args], { maxBuffer: 2 ** 28 })).stdout;

const edgetier: Tool = {
  name: "edgetier bench",
  async measure(url) {
    const args = [
      EDGETIER,
      "bench",
      url,
      "--model",
      "m",
      "--protocol",
      "predict",
      "--file",
      `${process.cwd()}/LICENSE`,
    ];
    const child = spawn(
      process.execPath,
      [
        ...args,
        "--rate",
        String(rate),
        "--duration",
        `${seconds}s`,
        "--arrivals",
        "constant",
        "--percentile",
        "95",
        "--slo",
        "60000",
        "--connections",
        String(CONNECTIONS),
        "--json",
      ],
      { stdio: ["ignore", "pipe", "inherit"] },
    );
    const [stdout] = await Promise.all([text(child.stdout), once(child, "exit")]);
    const [trial] = loadReportSchema.parse(JSON.parse(stdout)).trials;
    const at = (percentile: number) =>
      trial?.latency.percentiles.find((entry) => entry.percentile === percentile)?.ms ?? Number.NaN;
    return {
      p50Ms: at(50),
      p95Ms: at(95),
      p99Ms: at(99),
      maxMs: trial?.latency.maxMs ?? Number.NaN,
      perSecond: trial?.achievedPerSecond ?? Number.NaN,
    };
  },
};

const oha = (binary: string): Tool => ({
  name: "oha, corrected",
  async measure(url, bodyFile) {
    const { latencyPercentiles: at, summary }: OhaResult = JSON.parse(
      await run(binary, [
        "--no-tui",
        "--output-format",
        "json",
        "--latency-correction",
        "-q",
        String(rate),
        "-z",
        `${seconds}s`,
        "-c",
        String(CONNECTIONS),
        "-m",
        "POST",
        "-T",
        "application/json",
        "-D",
        bodyFile,
        url,
      ]),
    );
    return {
      p50Ms: 1e3 * at.p50,
      p95Ms: 1e3 * at.p95,
      p99Ms: 1e3 * at.p99,
      maxMs: 1e3 * summary.slowest,
      perSecond: summary.requestsPerSec,
    };
  },
});
interface OhaResult {
  readonly latencyPercentiles: Record<"p50" | "p95" | "p99", number>;
  readonly summary: { readonly slowest: number; readonly requestsPerSec: number };
}

/** hey limits the rate per caller. Few callers with a high rate each omit calls while one of them waits. */
const hey = (binary: string): Tool => ({
  name: "hey, closed loop",
  async measure(url, bodyFile) {
    const callers = Math.max(1, Math.round(rate / 30));
    const lines = (
      await run(binary, [
        "-o",
        "csv",
        "-z",
        `${seconds}s`,
        "-c",
        String(callers),
        "-q",
        String(rate / callers),
        "-m",
        "POST",
        "-T",
        "application/json",
        "-D",
        bodyFile,
        url,
      ])
    )
      .trim()
      .split("\n")
      .slice(1);
    const latenciesMs = lines.map((line) => 1_000 * Number(line.split(",", 1)[0]));
    const at = (share: number) => quantile(latenciesMs, share);
    return {
      p50Ms: at(0.5),
      p95Ms: at(0.95),
      p99Ms: at(0.99),
      maxMs: at(1),
      perSecond: latenciesMs.length / seconds,
    };
  },
});

/** @returns name and version, or undefined if the program is not installed */
const versionOf = async (binary: string, args: readonly string[]): Promise<string | undefined> =>
  await run(binary, args).then(
    (stdout) => stdout.trim().split("\n")[0],
    () => undefined,
  );

const folder = await mkdtemp(join(tmpdir(), "edgetier-bench-"));
const bodyFile = join(folder, "body.json");
await writeFile(bodyFile, BODY);
const [ohaVersion, heyIsThere] = await Promise.all([
  versionOf(values.oha, ["--version"]),
  versionOf("which", [values.hey]),
]);
const tools: readonly Tool[] = [
  edgetier,
  ...(ohaVersion === undefined ? [] : [oha(values.oha)]),
  ...(heyIsThere === undefined ? [] : [hey(values.hey)]),
];

const random = createRandom(seed);
let stalledUntilMs = 0;
const server = await startTestHttpServer((request, response) => {
  request.resume().on("end", () => {
    const draw = random.next();
    const delayMs = DELAYS.find(({ below }) => draw < below)?.ms ?? 0;
    response.setHeader("content-type", "application/json");
    setTimeout(() => response.end(ANSWER), Math.max(delayMs, stalledUntilMs - performance.now()));
  });
});

const url = `${server.url}/v1/models/m/predict`;
const rows: ({ case: string } & Record<string, number | string>)[] = [];
const figures: Record<string, number> = {};
try {
  for (const doesStall of [false, true]) {
    const timer = doesStall
      ? setInterval(() => (stalledUntilMs = performance.now() + STALL.ms), STALL.everyMs)
      : undefined;
    const measured = new Map<Tool, LoadFigures[]>(tools.map((tool) => [tool, []]));
    for (let round = 0; round < rounds; round++) {
      for (const tool of tools) {
        measured
          .get(tool)
          ?.push(await tool.measure(tool === edgetier ? server.url : url, bodyFile));
        console.error(
          `${doesStall ? "stalling" : "steady"}, round ${round + 1} of ${rounds}: ${tool.name}`,
        );
      }
    }
    clearInterval(timer);
    for (const [{ name }, all] of measured)
      rows.push({
        case: `${name}, ${doesStall ? "a server that stalls" : "a steady server"}`,
        ...medians(all),
      });
    const peer = measured.get(tools.find(({ name }) => name.startsWith("oha")) ?? edgetier) ?? [];
    for (const percentile of Object.keys(PERCENTILES) as (keyof typeof PERCENTILES)[]) {
      const ratios = peer.map(
        (theirs, round) =>
          (measured.get(edgetier)?.[round]?.[percentile] ?? Number.NaN) / theirs[percentile],
      );
      if (ohaVersion !== undefined)
        figures[`${doesStall ? "stalling" : "steady"}VsOhaRatio.${percentile.replace("Ms", "")}`] =
          roundToFourDigits(quantile(ratios, 0.5));
    }
  }
} finally {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
}

const missing = [
  ...(ohaVersion === undefined ? ["oha"] : []),
  ...(heyIsThere === undefined ? ["hey"] : []),
];
await writeBenchReport({
  name: "load-peer",
  seed,
  n: rate * seconds,
  packages: [],
  otherVersions: ohaVersion === undefined ? {} : { oha: ohaVersion },
  isSaved: missing.length === 0,
  rows,
  figures,
  notes: [
    `Medians of ${rounds} rounds of ${seconds} s at ${rate} calls a second, evenly spaced; the tools take turns on one server and one machine. Of 100 answers, 90 take 5 ms, 8 take 20 and 2 take 60; the server that stalls answers nothing for ${STALL.ms} ms every ${STALL.everyMs} ms.`,
    ...(missing.length === 0
      ? []
      : [`Not there, and so left out: ${missing.join(", ")}. Nothing was written.`]),
  ],
});

function medians(all: readonly LoadFigures[]): Record<keyof LoadFigures, number> {
  const median = (name: keyof LoadFigures) =>
    roundToFourDigits(
      quantile(
        all.map((row) => row[name]),
        0.5,
      ),
    );
  return {
    p50Ms: median("p50Ms"),
    p95Ms: median("p95Ms"),
    p99Ms: median("p99Ms"),
    maxMs: median("maxMs"),
    perSecond: median("perSecond"),
  };
}
