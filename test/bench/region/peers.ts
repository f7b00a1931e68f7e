// The region and other servers on the same ONNX file with the same tensors. Each system is tried with several settings;
// the best settings are then measured again, alternately.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reasonOf } from "../../../src/core/errors.ts";
import { roundToFourDigits } from "../lib/report.ts";
import type { PeerDiscovery } from "../peers/find-peers.ts";
import type { Peer, PeerSetting } from "../peers/peer.ts";
import { type BenchContext, type PartResult, withTargets } from "./bench-context.ts";
import { type BenchCase, findHighestRates, measureLatencyRows } from "./compare-cases.ts";
import { startRegion, type Target } from "./target.ts";
import type { Encoding, GraphModel, Workload } from "./workload.ts";

const EDGETIER = "EdgeTier";
const MAX_BATCH_ROWS = 32;
const SHARE = 0.9;

/** Settings of the region that are tried. */
const REGION_SETTINGS = [
  { name: "fixed", variables: { EDGETIER_REGION_BATCHING: "fixed" } },
  { name: "adaptive", variables: { EDGETIER_REGION_BATCHING: "adaptive" } },
  {
    name: "fixed, 2 instances",
    variables: { EDGETIER_REGION_BATCHING: "fixed", EDGETIER_REGION_INSTANCES: "2" },
  },
];

interface SystemCase extends BenchCase {
  readonly system: string;
}

/** @param workloadIn the same requests in either encoding; undefined for one that makes no sense */
export async function comparePeers(
  bench: BenchContext,
  { peers, missing }: PeerDiscovery,
  model: GraphModel,
  workloadIn: (encoding: Encoding) => Workload | undefined,
): Promise<PartResult> {
  const results: PartResult[] = [];
  for (const encoding of ["binary", "json"] as const) {
    const workload = workloadIn(encoding);
    const able = peers.filter(
      (peer) => (peer.supportsBinaryTensors ? "binary" : "json") === encoding,
    );
    if (workload !== undefined && able.length > 0)
      results.push(await compare(bench, able, model, workload, encoding));
  }
  return {
    rows: results.flatMap(({ rows }) => rows),
    figures: Object.assign({}, ...results.map(({ figures }) => figures)),
    notes: [
      ...missing.map((one) => `Left out: ${one}.`),
      ...results.flatMap(({ notes = [] }) => notes),
    ],
    otherVersions: Object.assign({}, ...peers.map(({ versions }) => versions)),
  };
}

async function compare(
  { store, trialSettings: measuring }: BenchContext,
  peers: readonly Peer[],
  model: GraphModel,
  workload: Workload,
  encoding: Encoding,
): Promise<PartResult> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-peers-"));
  try {
    const graph = join(folder, "graph.onnx");
    await writeFile(graph, model.graph);
    return await withTargets(async (add) => {
      const cases: SystemCase[] = [];
      const leftOut: string[] = [];
      const push = async (system: string, setting: string, starting: Promise<Target>) => {
        cases.push({
          system,
          name: `${model.name}, ${encoding}, ${system}, ${setting}`,
          target: await add(starting),
          workload,
        });
      };
      for (const { name, variables } of REGION_SETTINGS) {
        await push(
          EDGETIER,
          name,
          startRegion(store, model.name, {
            EDGETIER_REGION_MAX_BATCH_ROWS: `${MAX_BATCH_ROWS}`,
            ...variables,
          }),
        );
      }
      for (const peer of peers) {
        for (const setting of peer.settings) {
          const starting = peer.start({ ...model, graph, maxBatchRows: MAX_BATCH_ROWS }, setting);
          await push(peer.name, nameOf(setting), starting).catch((error: unknown) =>
            leftOut.push(`Left out: ${peer.name}, ${nameOf(setting)}: ${reasonOf(error)}`),
          );
        }
      }
      return { ...(await measure(cases, `${model.name}.${encoding}`)), notes: leftOut };
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }

  async function measure(cases: readonly SystemCase[], name: string): Promise<PartResult> {
    const tried = await findHighestRates(cases, { ...measuring, rounds: 1 });
    const rows = [...tried].map(([one, rate]) => ({
      case: `${one.name}, highest rate, one search`,
      perSecond: Number.isNaN(rate) ? "none" : roundToFourDigits(rate),
    }));
    const best = selectBestSettings(cases, tried);
    const highest = await findHighestRates(best, measuring, tried);
    const latencies = await measureLatencyRows(
      new Map(best.map((one) => [one, SHARE * (highest.get(one) ?? Number.NaN)])),
      `best setting, ${SHARE * 100} % of its highest rate`,
      measuring,
    );
    const figures: Record<string, number> = {};
    const [own] = best;
    for (const one of best) {
      figures[`highestRate.${name}.${one.system}`] = roundToFourDigits(
        highest.get(one) ?? Number.NaN,
      );
      if (own !== undefined && one !== own)
        figures[`vsPeerRatio.${name}.${one.system}`] = roundToFourDigits(
          (highest.get(own) ?? Number.NaN) / (highest.get(one) ?? Number.NaN),
        );
    }
    return { rows: [...rows, ...latencies.values()], figures };
  }
}

/** One case a system, in the order in which the systems come: the region first. A rate that none was found for is NaN. */
function selectBestSettings(
  cases: readonly SystemCase[],
  rates: ReadonlyMap<BenchCase, number>,
): SystemCase[] {
  const rateOf = (one: BenchCase) => rates.get(one) || 0;
  const best = new Map<string, SystemCase>();
  for (const one of cases) {
    const before = best.get(one.system);
    if (before === undefined || rateOf(one) > rateOf(before)) best.set(one.system, one);
  }
  return [...best.values()];
}

const nameOf = ({ maxQueueDelayUs, instances }: PeerSetting) =>
  `delay ${maxQueueDelayUs} µs, ${instances} instance${instances > 1 ? "s" : ""}`;
