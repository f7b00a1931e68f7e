// Snapshots and engines that are damaged or belong to something else, in Workers that were deployed with them.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import type { WorkerUpload, UploadModule } from "../../../src/cli/local/upload.ts";
import type { WorkerdEdge } from "../../../src/cli/local/workerd-edge.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { formatReply } from "../lib/http-client.ts";
import { OUT_OF_SCOPE_SAMPLE, predict, CONFIDENT_SAMPLE } from "../lib/intent-checks.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";

const SEED = 7;
/** Flips bits of one byte, in the table of sections or in a section. */
const flipByte = (bytes: Uint8Array, at: number, by: number): Uint8Array =>
  bytes.with(at, (bytes[at] ?? 0) ^ by);

/** @returns the upload with each module that `isMeant` put through `change` */
const replaceModules = (
  upload: WorkerUpload,
  isMeant: (module: UploadModule) => boolean,
  change: (module: UploadModule) => Uint8Array,
): WorkerUpload => ({
  ...upload,
  modules: upload.modules.map((module) =>
    isMeant(module) ? { ...module, bytes: change(module) } : module,
  ),
});
const isSnapshot = ({ name, kind }: UploadModule) => kind === "data" && name.includes("snapshot");
const isEngine = ({ name, kind }: UploadModule) => kind === "wasm" && name.includes("engine");

interface PredictionCheck {
  readonly tiers: readonly (string | undefined)[];
  readonly areCorrect: boolean;
}

async function checkPredictions(
  edge: WorkerdEdge,
  findings: ProblemCollector,
  what: string,
): Promise<PredictionCheck> {
  const tiers: (string | undefined)[] = [];
  let areRight = true;
  for (const { text, label } of [CONFIDENT_SAMPLE, CONFIDENT_SAMPLE, OUT_OF_SCOPE_SAMPLE]) {
    const { reply, output } = await predict(edge.url, text);
    tiers.push(output?.tier);
    areRight =
      findings.check(
        output?.label === label && !output.degraded,
        () => `${what}: ${formatReply(reply)}`,
      ) && areRight;
  }
  return { tiers, areCorrect: areRight };
}

const countSnapshotRejections = (edge: WorkerdEdge) =>
  edge.output().match(/"event":"snapshot_refused"/g)?.length ?? 0;
const countEngineTraps = (edge: WorkerdEdge) =>
  edge.output().match(/"event":"engine_trap"/g)?.length ?? 0;

/** The address of the snapshot that came with the published version. */
async function findStoredSnapshot({ store }: FaultSystem): Promise<RegExp> {
  const version = (await store.listVersions("intent")).at(-1) ?? 0;
  const tiers = (await store.readManifest("intent", version))?.tiers ?? [];
  return new RegExp(
    tiers.find(({ snapshot }) => snapshot !== undefined)?.snapshot?.artifact.sha256 ?? "none",
  );
}

async function runCorruptedSnapshots(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const random = seededRandom(SEED);
  const figures = { damages: 0, answeredAtEdge: 0, answeredByRegion: 0, refusalsLogged: 0 };
  const flips = Math.max(2, Math.round(samples / 20));
  const damages: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
    ...Object.fromEntries(
      Array.from({ length: flips }, (_, index) => [
        `flipped byte ${index}`,
        (bytes: Uint8Array) =>
          flipByte(bytes, Math.floor(random() * bytes.byteLength), 1 + Math.floor(random() * 255)),
      ]),
    ),
    "half of it": (bytes) => bytes.slice(0, bytes.byteLength >> 1),
    nothing: () => new Uint8Array(),
  };
  const inStore = await findStoredSnapshot(system);
  const [first, second] = system.upload.modules.filter(isSnapshot);
  const uploads = Object.entries(damages).map(
    ([what, damage]) =>
      [what, replaceModules(system.upload, isSnapshot, ({ bytes }) => damage(bytes))] as const,
  );
  const swapped = replaceModules(
    system.upload,
    isSnapshot,
    ({ name }) => (name === first?.name ? second : first)?.bytes ?? new Uint8Array(),
  );
  for (const [what, upload] of [...uploads, ["that of the other model", swapped] as const]) {
    for (const storeWorks of [true, false]) {
      const edge = await system.startEdge({}, upload);
      if (!storeWorks)
        system.proxies.s3.fault = { kind: "corrupts", matching: inStore, seed: figures.damages };
      const { tiers } = await checkPredictions(
        edge,
        findings,
        `${what}${storeWorks ? "" : ", and a wrong one in the store"}`,
      );
      findings.check(countSnapshotRejections(edge) > 0, () => `${what}: no rejection was logged`);
      findings.check(
        (tiers[0] === "edge-int8") === storeWorks,
        () =>
          `${what}: answered by ${tiers[0]}${storeWorks ? ", although the store has a right one" : ""}`,
      );
      figures.damages++;
      figures.refusalsLogged += countSnapshotRejections(edge);
      figures[tiers[0] === "edge-int8" ? "answeredAtEdge" : "answeredByRegion"]++;
      system.clearFaults();
      await edge.stop();
    }
  }
  return { figures, problems: findings.problems };
}

/** workerd validates what it compiles; what is valid and wrong all the same must trap, and never answer wrongly. */
async function runCorruptedEngine(
  system: FaultSystem,
  { samples }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const random = seededRandom(SEED);
  const figures = { engines: 0, notStarted: 0, answeredRight: 0, trapsLogged: 0 };
  const count = Math.max(3, Math.round(samples / 20));
  for (let index = 0; index < count; index++) {
    const upload = replaceModules(system.upload, isEngine, ({ bytes }) =>
      flipByte(bytes, Math.floor(random() * bytes.byteLength), 1 + Math.floor(random() * 255)),
    );
    figures.engines++;
    const edge = await system.startEdge({}, upload).catch(() => undefined);
    if (edge === undefined) {
      figures.notStarted++;
      continue;
    }
    const { areCorrect: areRight } = await checkPredictions(edge, findings, `engine ${index}`);
    figures.answeredRight += Number(areRight);
    figures.trapsLogged += countEngineTraps(edge);
    await edge.stop();
  }
  return { figures, problems: findings.problems };
}

/** An engine that was cut for other models: it calls what it does not have, and that traps. */
async function runMismatchedEngine(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  await system.getTensorEdge(); // builds it
  const other = new Uint8Array(
    await readFile(join(PROJECT_ROOT, "dist/test/fixture-worker/engine.wasm")),
  );
  const edge = await system.startEdge(
    {},
    replaceModules(system.upload, isEngine, () => other),
  );
  try {
    const { tiers } = await checkPredictions(edge, findings, "an engine of other models");
    const again = await checkPredictions(edge, findings, "the same once more");
    const asked = tiers.length + again.tiers.length;
    findings.check(
      countEngineTraps(edge) > 1,
      () =>
        `${countEngineTraps(edge)} traps were logged for ${asked} requests: ${edge.output().slice(0, 300)}`,
    );
    return {
      figures: {
        requests: asked,
        trapsLogged: countEngineTraps(edge),
        answeredByRegion: [...tiers, ...again.tiers].filter((tier) => tier !== "edge-int8").length,
      },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

const row = "snapshots and engines";
export const corruptedSnapshots: readonly Scenario[] = [
  {
    group: row,
    name: "damaged snapshots, and another model's",
    expected: "rejected; the snapshot of the store, or the region",
    run: runCorruptedSnapshots,
  },
  {
    group: row,
    name: "an engine with one flipped byte",
    expected: "does not start, traps, or answers right; never wrong",
    run: runCorruptedEngine,
  },
  {
    group: row,
    name: "an engine that was cut for other models",
    expected: "the trap is caught, the region answers, the instance is replaced",
    run: runMismatchedEngine,
  },
];
