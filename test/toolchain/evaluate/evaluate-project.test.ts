// Evaluation of a small project, in workerd and in onnxruntime-node.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENGINE_FOLDER } from "../../../src/cli/local/paths.ts";
import type { TextClassificationProject } from "../../../src/registry/manifest.ts";
import { loadEngineInNode } from "../../../src/toolchain/engine/load-engine-in-node.ts";
import { prepareEngine } from "../../../src/toolchain/engine/prepare-engine.ts";
import {
  type Evaluation,
  evaluateProject,
} from "../../../src/toolchain/evaluate/evaluate-project.ts";
import {
  createWorkerdRunner,
  type WorkerdRunner,
} from "../../../src/toolchain/evaluate/harness/workerd-runner.ts";
import type { LabeledSample } from "../../../src/toolchain/evaluate/labeled-samples.ts";
import { createNodeRunner } from "../../../src/toolchain/evaluate/node-runner.ts";
import {
  profileNativeOperators,
  profileWasmOperators,
} from "../../../src/toolchain/evaluate/profile/operator-profile.ts";
import {
  PHASES,
  profileNodePhases,
  profileWorkerdPhases,
} from "../../../src/toolchain/evaluate/profile/phase-profile.ts";
import type { ProjectTier } from "../../../src/toolchain/evaluate/project-tier.ts";
import { readToyFiles, toyProject } from "../../support/toy-project.ts";

const [tier] = toyProject.tiers as [ProjectTier, ProjectTier];
const sample = (text: string, label: string): LabeledSample => ({
  input: { kind: "text", text },
  label,
});
/** "maybe" is an uncertain yes, so that it goes to the region; "other" is out of scope. */
const samples = [
  sample("yes", "yes"),
  sample("no", "no"),
  sample("maybe", "no"),
  sample("other", "oos"),
  sample("yes", "no"),
];

let edge: WorkerdRunner;
let engineSha256: string;
let files: Map<string, Uint8Array>;
beforeAll(async () => {
  files = await readToyFiles();
  ({ sha256: engineSha256 } = await prepareEngine({ outDir: ENGINE_FOLDER }));
  edge = await createWorkerdRunner({ engineFolder: ENGINE_FOLDER, engineSha256 });
}, 60_000);
afterAll(() => edge.close());

const evaluate = (
  changes: Partial<TextClassificationProject> = {},
  evaluatedSamples: readonly LabeledSample[] = samples,
): Promise<Evaluation> =>
  evaluateProject(
    { project: { ...toyProject, ...changes }, files },
    { ...toyProject, ...changes },
    evaluatedSamples,
    { runners: { edge, region: createNodeRunner() } },
  );

describe("evaluateProject", () => {
  it("scores tiers and cascade on all samples, and counts confused labels", async () => {
    const { tiers, cascade, confusion, slo } = await evaluate();
    expect(tiers).toMatchObject([
      { id: "edge", accuracy: 0.6, share: 0.6 },
      { id: "region", accuracy: 0.6, share: 0.4 },
    ]);
    expect(cascade).toMatchObject({
      accuracy: 0.6,
      inScopeAccuracy: 0.5,
      oosRecall: 1,
      edgeShare: 0.6,
      lossPoints: 0,
    });
    expect(confusion.pairs).toContainEqual({ truth: "no", answer: "yes", count: 2 });
    expect(confusion.labels[0]).toEqual({ label: "no", samples: 3, recall: 1 / 3, precision: 1 });
    expect(slo).toEqual({ kind: "none" });
  });

  it("checks the latency class against the total latency of the tiers that a sample passes", async () => {
    const { slo, latency, cascadeLatency } = await evaluate({ sloMs: 500 });
    expect(slo).toMatchObject({ kind: "met", classMs: 500, p99Ms: cascadeLatency.p99Ms });
    expect(Object.keys(latency)).toEqual(["edge", "region"]);
    expect(cascadeLatency.n).toBe(samples.length);
    expect(cascadeLatency.p99Ms).toBeGreaterThan(0);
  });

  it("rejects a label that the model does not have", async () => {
    await expect(evaluate({}, [sample("yes", "perhaps")])).rejects.toMatchObject({
      code: "invalid_samples",
      detail: expect.stringContaining('"perhaps"'),
    });
  });
});

describe("profiles", () => {
  it("report the times of each phase and the memory, in both runtimes", async () => {
    const project = toyProject;
    const source = { project, files };
    const profiles = [
      await profileWorkerdPhases(source, project, tier, samples, edge),
      await profileNodePhases(source, project, tier, samples, createNodeRunner()),
    ];
    expect(profiles.map(({ runtime }) => runtime)).toEqual(["workerd", "node"]);
    for (const profile of profiles) {
      for (const phase of PHASES) {
        const { n, p50Ms, p95Ms, p99Ms } = profile.phases[phase];
        expect({ phase, n }).toEqual({ phase, n: samples.length });
        expect(p50Ms).toBeGreaterThanOrEqual(0);
        expect(p95Ms).toBeGreaterThanOrEqual(p50Ms);
        expect(p99Ms).toBeGreaterThanOrEqual(p95Ms);
      }
    }
    // In workerd, the figure is the engine's memory.
    expect(profiles[0]?.memoryBytes).toBeGreaterThan(1_000_000);
  });

  it("report the time by operator, with shares that add up to 1, in both engines", async () => {
    const inputs = [
      { ids: { datatype: "INT32", shape: [1, 2], data: Int32Array.of(1, 2) } },
    ] as const;
    const graph = files.get("artifacts/toy.onnx") ?? new Uint8Array();
    const engine = await loadEngineInNode(ENGINE_FOLDER, engineSha256);
    for (const operators of [
      await profileNativeOperators(graph, inputs, 50),
      await profileWasmOperators(engine, graph, inputs, 50),
    ]) {
      expect(operators.map(({ operator }) => operator)).toContain("Gather");
      expect(operators.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1);
    }
  });
});
