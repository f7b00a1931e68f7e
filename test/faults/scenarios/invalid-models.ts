// ONNX files that are wrong: through the code of `edgetier model import`, and published, into a region that loads them.
import { spawn } from "node:child_process";
import { link, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { create } from "@bufbuild/protobuf";
import * as z from "zod";
import { PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import { EdgeTierError } from "../../../src/core/errors.ts";
import { readModelFile } from "../../../src/toolchain/import/read-model-file.ts";
import { serializeModel } from "../../../src/toolchain/onnx/model-file.ts";
import { type TensorProto, TensorProtoSchema } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { runEdgetier } from "../../support/edgetier-command.ts";
import { type TensorGraph, publishTensorModel } from "../../support/tensor-model.ts";
import { model, node } from "../../toolchain/onnx/model-builders.ts";
import { sendRequest, hasErrorBody, formatReply } from "../lib/http-client.ts";
import { findRegionProblem } from "../lib/intent-checks.ts";
import { createModelMutator, MUTANT_SOURCES } from "../lib/mutate-model.ts";
import {
  createProblemCollector,
  type ScenarioResult,
  type Scenario,
  type ScenarioSize,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";

const SEED = 17;
const WORKER = join(import.meta.dirname, "../lib/import-mutated-models.ts");
/** Time-out of one model, including the start of its process. */
const SILENCE_TIMEOUT_MS = 30_000;
const LOG_INTERVAL_MODELS = 1_000;

const externalTensor = (
  entries: Readonly<Record<string, string>>,
  dims: readonly bigint[] = [3n],
): TensorProto =>
  create(TensorProtoSchema, {
    name: "w",
    dataType: 1,
    dims: [...dims],
    dataLocation: 1,
    externalData: Object.entries(entries).map(([key, value]) => ({ key, value })),
  });
const createAddModel = (...constants: TensorProto[]) =>
  serializeModel(
    model({ inputs: ["x: float [3]"], outputs: ["y"], nodes: [node("Add x w -> y")], constants }),
  );

/** Locations outside the model's folder, links, and files that are too short or missing. */
const INVALID_LOCATIONS = [
  "../outside.bin",
  "a/../../outside.bin",
  "/etc/hostname",
  "/proc/self/environ",
  "C:\\outside.bin",
  "..\\outside.bin",
  "symbolic.bin",
  "behind/outside.bin",
  "hard.bin",
  "short.bin",
  "none.bin",
  ".",
  "",
  "short.bin\0.txt",
];

async function runExternalData(): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const root = await mkdtemp(join(tmpdir(), "edgetier-external-"));
  const folder = join(root, "model");
  try {
    await mkdir(folder);
    await writeFile(join(root, "outside.bin"), new Uint8Array(12));
    await symlink(join(root, "outside.bin"), join(folder, "symbolic.bin"));
    await symlink(root, join(folder, "behind"));
    await link(join(root, "outside.bin"), join(folder, "hard.bin"));
    await writeFile(join(folder, "short.bin"), new Uint8Array(4));
    const locations = [...INVALID_LOCATIONS, join(root, "outside.bin")];
    for (const location of locations) {
      const path = join(folder, "model.onnx");
      await writeFile(path, createAddModel(externalTensor({ location })));
      const thrown: unknown = await readModelFile(path).then(
        () => undefined,
        (error: unknown) => error,
      );
      findings.check(
        thrown instanceof EdgeTierError && thrown.code === "external_data",
        () => `data at ${JSON.stringify(location)}: ${String(thrown)}`,
      );
    }
    // The command itself, once.
    await writeFile(
      join(folder, "model.onnx"),
      createAddModel(externalTensor({ location: "../outside.bin" })),
    );
    const { code, stdout, stderr } = await runEdgetier([
      "model",
      "import",
      join(folder, "model.onnx"),
      "--out",
      join(root, "project"),
      "--json",
    ]);
    findings.check(
      code === 1 && /external_data/.test(stderr),
      () => `the command ended with ${code}: ${stdout}${stderr}`,
    );
    return { figures: { locations: locations.length }, problems: findings.problems };
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

const line = z.object({ index: z.int(), outcome: z.string() });

/** @returns the outcome of each; what its process did not survive is called so, and another goes on behind it */
async function importMutants(
  count: number,
  onOutcome: (index: number, outcome: string) => void,
): Promise<void> {
  for (let next = 0; next < count;) {
    const child = spawn(
      process.execPath,
      [WORKER, String(SEED), String(next), String(count - next)],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    const kill = () => child.kill("SIGKILL");
    process.once("exit", kill);
    let timer = setTimeout(kill, SILENCE_TIMEOUT_MS);
    const ended = new Promise<string>((resolve) =>
      child.once("exit", (code, signal) => resolve(String(signal ?? code))),
    );
    for await (const text of createInterface({ input: child.stdout })) {
      const { index, outcome } = line.parse(JSON.parse(text));
      onOutcome(index, outcome);
      next = index + 1;
      clearTimeout(timer);
      timer = setTimeout(kill, SILENCE_TIMEOUT_MS);
    }
    clearTimeout(timer);
    const how = await ended;
    process.off("exit", kill);
    if (next < count) onOutcome(next++, `killed by ${how}`);
  }
}

async function runImportedMutants(
  { log }: FaultSystem,
  { mutatedModels }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const figures = { models: 0, refused: 0, imported: 0, processesLost: 0 };
  await importMutants(mutatedModels, (index, outcome) => {
    figures.models++;
    if (outcome === "imported") figures.imported++;
    else if (/^[a-z_]+$/.test(outcome)) figures.refused++;
    else if (outcome.startsWith("killed")) figures.processesLost++;
    if (figures.models % LOG_INTERVAL_MODELS === 0) log(`  ${figures.models} models`);
    findings.check(/^[a-z_]+$/.test(outcome), () => `mutant ${index} ${outcome}`);
  });
  return { figures, problems: findings.problems };
}

const X: TensorGraph["inputs"] = [{ name: "x", datatype: "FP32", shape: [3] }];
const Y: TensorGraph["outputs"] = [{ name: "y", datatype: "FP32", shape: [3] }];
const INPUTS = '{"inputs":[{"name":"x","shape":[3],"datatype":"FP32","data":[1,2,3]}]}';

/** Invalid models and mutants by their description. */
async function createInvalidModels(
  mutatedModels: number,
): Promise<Readonly<Record<string, Uint8Array>>> {
  const fixtures = join(PROJECT_ROOT, "test/fixtures");
  const sources = await Promise.all(MUTANT_SOURCES.map((name) => readFile(join(fixtures, name))));
  const mutant = createModelMutator(SEED, sources);
  const huge = create(TensorProtoSchema, {
    name: "w",
    dataType: 1,
    dims: [1_099_511_627_776n],
    rawData: new Uint8Array(12),
  });
  return {
    "external data in the server's folder": await readFile(join(fixtures, "external-data.onnx")),
    "external data of the system": createAddModel(
      externalTensor({ location: "/proc/self/environ" }),
    ),
    "an initializer of 4 TiB": createAddModel(huge),
    "an initializer of 4 TiB in another file": createAddModel(
      externalTensor({ location: "none.bin" }, [1_099_511_627_776n]),
    ),
    "an unknown operator": serializeModel(
      model({ inputs: ["x: float [3]"], outputs: ["y"], nodes: [node("Mystery x -> y")] }),
    ),
    "an operator of an unknown domain": serializeModel(
      model({
        inputs: ["x: float [3]"],
        outputs: ["y"],
        domains: ["com.example"],
        nodes: [node("Add x x -> y", [], "com.example")],
      }),
    ),
    "no model": new TextEncoder().encode("this is none"),
    "nothing but a byte": Uint8Array.of(0),
    "one that fails when it runs": await readFile(join(fixtures, "fails-when-run.onnx")),
    ...Object.fromEntries(
      Array.from({ length: Math.max(6, Math.round(mutatedModels / 50)) }, (_, index) => [
        `mutant ${index}`,
        mutant(index),
      ]),
    ),
  };
}

/** Publishes mutants as a careless publisher could: the region must reject each, and continue to serve its other models. */
async function runPublishedMutants(
  system: FaultSystem,
  { mutatedModels }: ScenarioSize,
): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const invalidModels = await createInvalidModels(mutatedModels);
  const region = await system.startRegion({ EDGETIER_REGION_ISOLATION: "process" }, ["intent"]);
  const figures = { models: 0, refused: 0, answered: 0, slowestMs: 0 };
  try {
    for (const [what, bytes] of Object.entries(invalidModels)) {
      const name = `wrong-${figures.models++}`;
      await publishTensorModel(
        system.store,
        name,
        { bytes, inputs: X, outputs: Y },
        { places: ["region"] },
      );
      const reply = await sendRequest(region.url, {
        path: `/v2/models/${name}/versions/1/infer`,
        body: INPUTS,
        timeoutMs: 60_000,
      });
      const isMutant = what.startsWith("mutant");
      findings.check(
        (isMutant && reply.status === 200) || (reply.status >= 400 && hasErrorBody(reply)),
        () => `${what}: ${formatReply(reply)}`,
      );
      findings.check(
        !/root:|"name": "edgetier"|PATH=/.test(reply.text),
        () => `${what}: the rejection shows a file: ${reply.text.slice(0, 200)}`,
      );
      figures[reply.status === 200 ? "answered" : "refused"]++;
      figures.slowestMs = Math.max(figures.slowestMs, Math.round(reply.durationMs));
      const after = await findRegionProblem(region.url);
      findings.check(after === undefined, () => `after ${what}, ${after}`);
      await sendRequest(region.url, { path: `/v2/repository/models/${name}/unload`, body: "{}" });
    }
    return { figures, problems: findings.problems };
  } finally {
    await region.stop();
  }
}

const row = "ONNX";
export const invalidModels: readonly Scenario[] = [
  {
    group: row,
    name: "data in other files",
    expected: "rejected with a reason",
    run: runExternalData,
  },
  {
    group: row,
    name: "mutated models imported",
    expected: "rejected with a reason, or works",
    run: runImportedMutants,
  },
  {
    group: row,
    name: "wrong models published and loaded by a region",
    expected: "rejected with a reason, next request right",
    run: runPublishedMutants,
  },
];
