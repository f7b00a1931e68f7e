// Peers: compares the region with other servers on the same ONNX file and the same tensors. Several settings of each system
// are tried; the best settings are then measured again, alternately.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { reasonOf } from "../../../src/core/errors.ts";
import type { S3Options } from "../../../src/registry/s3-config.ts";
import { roundToFourDigits } from "../lib/report.ts";
import type { PeerDiscovery } from "../peers/find-peers.ts";
import type { Peer, PeerSetting } from "../peers/peer.ts";
import { type BenchContext, type PartResult, withTargets } from "./bench-context.ts";
import {
  type BenchCase,
  findHighestRates,
  measureLatencyRows,
  type TrialSettings,
} from "./compare-cases.ts";
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

/** @param createWorkload the same requests in either encoding; undefined if an encoding does not suit the model */
export async function comparePeers(
  bench: BenchContext,
  { peers, missing }: PeerDiscovery,
  model: GraphModel,
  createWorkload: (encoding: Encoding) => Workload | undefined,
): Promise<PartResult> {
  const results: PartResult[] = [];
  for (const encoding of ["binary", "json"] as const) {
    const workload = createWorkload(encoding);
    const ablePeers = peers.filter(
      (peer) => (peer.supportsBinaryTensors ? "binary" : "json") === encoding,
    );
    if (workload !== undefined && ablePeers.length > 0)
      results.push(await compareInEncoding(bench, ablePeers, { model, workload, encoding }));
  }
  return {
    rows: results.flatMap(({ rows }) => rows),
    figures: Object.assign({}, ...results.map(({ figures }) => figures)),
    notes: [
      ...missing.map((name) => `Left out: ${name}.`),
      ...results.flatMap(({ notes = [] }) => notes),
    ],
    otherVersions: Object.assign({}, ...peers.map(({ versions }) => versions)),
  };
}

interface Comparison {
  readonly model: GraphModel;
  readonly workload: Workload;
  readonly encoding: Encoding;
}

async function compareInEncoding(
  { store, trialSettings }: BenchContext,
  peers: readonly Peer[],
  comparison: Comparison,
): Promise<PartResult> {
  const { model, encoding } = comparison;
  const folder = await mkdtemp(join(tmpdir(), "edgetier-peers-"));
  try {
    const graphFile = join(folder, "graph.onnx");
    await writeFile(graphFile, model.graph);
    return await withTargets(async (add) => {
      const regionCases = await startRegionCases(store, comparison, add);
      const { cases: peerCases, leftOut } = await startPeerCases(peers, graphFile, comparison, add);
      const cases = [...regionCases, ...peerCases];
      return {
        ...(await measureCases(cases, `${model.name}.${encoding}`, trialSettings)),
        notes: leftOut,
      };
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

type AddTarget = (starting: Promise<Target>) => Promise<Target>;

const createCase = (
  { model, encoding, workload }: Comparison,
  system: string,
  setting: string,
  target: Target,
): SystemCase => ({
  system,
  name: `${model.name}, ${encoding}, ${system}, ${setting}`,
  target,
  workload,
});

async function startRegionCases(
  store: S3Options,
  comparison: Comparison,
  add: AddTarget,
): Promise<SystemCase[]> {
  const cases: SystemCase[] = [];
  for (const { name, variables } of REGION_SETTINGS) {
    const target = await add(
      startRegion(store, comparison.model.name, {
        EDGETIER_REGION_MAX_BATCH_ROWS: `${MAX_BATCH_ROWS}`,
        ...variables,
      }),
    );
    cases.push(createCase(comparison, EDGETIER, name, target));
  }
  return cases;
}

/** Leaves a peer's setting out, with a note, if it does not start. */
async function startPeerCases(
  peers: readonly Peer[],
  graphFile: string,
  comparison: Comparison,
  add: AddTarget,
): Promise<{ cases: SystemCase[]; leftOut: string[] }> {
  const cases: SystemCase[] = [];
  const leftOut: string[] = [];
  const model = { ...comparison.model, graph: graphFile, maxBatchRows: MAX_BATCH_ROWS };
  for (const peer of peers) {
    for (const setting of peer.settings) {
      const settingName = formatSetting(setting);
      try {
        const target = await add(peer.start(model, setting));
        cases.push(createCase(comparison, peer.name, settingName, target));
      } catch (error) {
        leftOut.push(`Left out: ${peer.name}, ${settingName}: ${reasonOf(error)}`);
      }
    }
  }
  return { cases, leftOut };
}

/** Searches each case's highest rate, and then measures each system's best case more precisely. */
async function measureCases(
  cases: readonly SystemCase[],
  figureName: string,
  trialSettings: TrialSettings,
): Promise<PartResult> {
  const firstRates = await findHighestRates(cases, { ...trialSettings, rounds: 1 });
  const rows = [...firstRates].map(([{ name }, rate]) => ({
    case: `${name}, highest rate, one search`,
    perSecond: Number.isNaN(rate) ? "none" : roundToFourDigits(rate),
  }));
  const bestCases = selectBestSettings(cases, firstRates);
  const highestRates = await findHighestRates(bestCases, trialSettings, firstRates);
  const rateOf = (benchCase: BenchCase) => highestRates.get(benchCase) ?? Number.NaN;
  const latencies = await measureLatencyRows(
    new Map(bestCases.map((best) => [best, SHARE * rateOf(best)])),
    `best setting, ${SHARE * 100} % of its highest rate`,
    trialSettings,
  );
  const figures: Record<string, number> = {};
  const [regionCase] = bestCases;
  for (const best of bestCases) {
    figures[`highestRate.${figureName}.${best.system}`] = roundToFourDigits(rateOf(best));
    if (regionCase !== undefined && best !== regionCase)
      figures[`vsPeerRatio.${figureName}.${best.system}`] = roundToFourDigits(
        rateOf(regionCase) / rateOf(best),
      );
  }
  return { rows: [...rows, ...latencies.values()], figures };
}

/** Selects each system's fastest case. Systems keep their order: the region comes first. A case without a rate counts as 0. */
function selectBestSettings(
  cases: readonly SystemCase[],
  rates: ReadonlyMap<BenchCase, number>,
): SystemCase[] {
  const rateOf = (benchCase: BenchCase) => rates.get(benchCase) || 0;
  const bestBySystem = new Map<string, SystemCase>();
  for (const candidate of cases) {
    const best = bestBySystem.get(candidate.system);
    if (best === undefined || rateOf(candidate) > rateOf(best))
      bestBySystem.set(candidate.system, candidate);
  }
  return [...bestBySystem.values()];
}

const formatSetting = ({ maxQueueDelayUs, instances }: PeerSetting) =>
  `delay ${maxQueueDelayUs} µs, ${instances} instance${instances > 1 ? "s" : ""}`;
