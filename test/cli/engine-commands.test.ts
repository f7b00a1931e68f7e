// Tests the commands for engines and snapshots. workerd creates snapshots of a valid graph and of an invalid one.
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ENGINE_FOLDER } from "../../src/cli/local/paths.ts";
import { sha256Hex } from "../../src/core/hash.ts";
import type { DeployedEngine } from "../../src/registry/deployed-engine.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import type { TextClassificationProject } from "../../src/registry/manifest.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { encodeFunctionSet } from "../../src/runtime/wasm/function-set.ts";
import { SESSION_OPTIONS_FINGERPRINT } from "../../src/runtime/wasm/open-session.ts";
import { parseSnapshotHead } from "../../src/runtime/wasm/snapshot-format.ts";
import { prepareEngine } from "../../src/toolchain/engine/prepare-engine.ts";
import { runEdgetier, runFailingEdgetier } from "../support/edgetier-command.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { sampleFiles, sampleProject } from "../support/sample-model.ts";
import { writeSampleProject } from "../support/write-sample-project.ts";

let folder: string;
let projectFolder: string;
let graph: Uint8Array<ArrayBuffer>;
/** SHA-256 of the full engine. */
let source: string;
let s3: TestS3;
let store: ModelStore;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-engine-cli-"));
  projectFolder = join(folder, "sample");
  graph = new Uint8Array(await readFile(join(import.meta.dirname, "../fixtures/toy.onnx")));
  await writeSampleProject(
    projectFolder,
    project,
    new Map([...sampleFiles(), ["artifacts/toy.onnx", graph]]),
  );
  ({ sha256: source } = await prepareEngine({ outDir: ENGINE_FOLDER }));
  s3 = await startTestS3();
  store = createModelStore(createS3ObjectStore(s3.options));
});
afterAll(async () => {
  await s3.stop();
  await rm(folder, { recursive: true });
});

const [student] = sampleProject.tiers as [TextClassificationProject["tiers"][number]];
const project: TextClassificationProject = {
  ...sampleProject,
  tiers: [
    {
      ...student,
      id: "toy",
      graph: "artifacts/toy.onnx",
      inputs: [{ name: "ids", datatype: "INT32", shape: [-1, -1] }],
      exit: { confidence: 0.9 },
    },
    { ...student, exit: { confidence: 0.8 } }, // an invalid graph
    { ...student, id: "teacher", place: "region" },
  ],
};
const invalidGraphSkip = {
  tier: "student",
  reason: expect.stringContaining("protobuf parsing failed"),
};

const publish = (...options: string[]) =>
  runEdgetier(["model", "publish", projectFolder, ...options], {
    EDGETIER_S3_ENDPOINT: s3.options.endpoint,
  });
const deployed = (functions: Iterable<number>): DeployedEngine => ({
  kind: "cut",
  source,
  functions: encodeFunctionSet(functions),
});
const allFunctions = Array.from({ length: 30_000 }, (_, index) => index);

describe("engine build", () => {
  it("prints its options with --help", async () => {
    const { code, stdout, stderr } = await runEdgetier(["engine", "build", "--help"]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/USAGE edgetier engine build.*--models=<folder>.*--traps=<file>/s);
  });

  it("rejects an unreadable log of traps before it builds", async () => {
    const ran = await runEdgetier(["engine", "build", "--traps", join(folder, "no-log"), "--json"]);
    expect(ran).toMatchObject({ code: 2, stdout: "" });
    expect(JSON.parse(ran.stderr)).toMatchObject({
      code: "usage",
      detail: expect.stringMatching(/--traps .*no-log.*ENOENT/s),
    });
  });
});

describe("functions of engine build", () => {
  it(
    "keeps the functions of a log of traps, in this build and in later ones",
    { timeout: 60_000 },
    async () => {
      const [config, out, log] = [
        join(folder, "deployment"),
        join(folder, "edge"),
        join(folder, "worker.log"),
      ];
      await mkdir(config);
      await writeFile(join(config, "package.json"), "{}");
      const missed = 2_000;
      await writeFile(
        log,
        `${JSON.stringify({ event: "engine_trap", engine: source, function: missed })}\n`,
      );
      const build = async (...options: string[]) =>
        JSON.parse(
          (
            await runEdgetier([
              "engine",
              "build",
              "--json",
              "--models",
              folder,
              "--config",
              config,
              "--out",
              out,
              ...options,
            ])
          ).stdout,
        );
      const whyKept = ({ functions }: { functions: { number: number; why: string }[] }) =>
        functions.find(({ number }) => number === missed)?.why;
      expect(whyKept(await build())).toBeUndefined();
      expect(whyKept(await build("--traps", log))).toBe("configuration");
      const again = await build();
      expect({ cached: again.cached, why: whyKept(again) }).toEqual({
        cached: true,
        why: "configuration",
      });
    },
  );

  it("names a folder of models that is unreadable", async () => {
    const models = join(folder, "nowhere");
    expect(await runFailingEdgetier(["engine", "build", "--models", models])).toMatchObject({
      exitCode: 1,
      code: "invalid_project",
      detail: expect.stringContaining(models),
    });
  });
});

describe("model snapshot", () => {
  it("creates snapshots of edge tiers, writes them with --out, and reports the tiers without one", async () => {
    const out = join(folder, "out/snapshots");
    const ran = await runEdgetier(["model", "snapshot", projectFolder, "--out", out, "--json"]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const { model, snapshots, without } = JSON.parse(ran.stdout);
    expect({ model, without }).toEqual({ model: "sample", without: [invalidGraphSkip] });
    expect(snapshots).toEqual([
      {
        tier: "toy",
        bytes: expect.any(Number),
        memoryBytes: expect.any(Number),
        engine: source,
        functions: expect.any(Number),
      },
    ]);
    expect(snapshots[0].functions).toBeGreaterThan(100);
    expect(await readdir(out)).toEqual(["toy.etsnap"]);
    const file = await readFile(join(out, "toy.etsnap"));
    expect(file.byteLength).toBe(snapshots[0].bytes);
    const { encoding, pageCount } = parseSnapshotHead(file.subarray(0, 12 + file.readUInt32LE(8)), {
      engine: source,
      model: await sha256Hex(graph),
      choices: SESSION_OPTIONS_FINGERPRINT,
    });
    expect({ encoding, memoryBytes: pageCount * 65_536 }).toEqual({
      encoding: "deflate",
      memoryBytes: snapshots[0].memoryBytes,
    });
  }, 60_000);

  it("prints a table", async () => {
    const { code, stdout } = await runEdgetier(["model", "snapshot", projectFolder]);
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /tier +file +memory +functions +engine\ntoy +[\d.]+ [KM]iB +[\d.]+ MiB +\d+ +[0-9a-f]{12}\nstudent: .*ONNX Runtime/,
    );
  }, 60_000);
});

describe("model publish", () => {
  it("publishes snapshots, and reports the tiers without one", async () => {
    const ran = await publish("--json");
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const { version, ...result } = JSON.parse(ran.stdout);
    expect(result).toMatchObject({
      outcome: "published",
      withoutSnapshot: [invalidGraphSkip],
      notAtTheEdge: [],
    }); // no deployment is known of
    const manifest = await store.readManifest("sample", version);
    expect(manifest?.tiers.map(({ id, snapshot }) => ({ id, engine: snapshot?.engine }))).toEqual([
      { id: "toy", engine: source },
      { id: "student", engine: undefined },
      { id: "teacher", engine: undefined },
    ]);
    const snapshot = manifest?.tiers[0]?.snapshot;
    if (snapshot === undefined) throw new Error("no snapshot");
    const head = (await store.readArtifact(snapshot.artifact)).subarray(0, snapshot.head.size);
    expect(await sha256Hex(head)).toBe(snapshot.head.sha256);
  }, 60_000);

  it("names the tiers that the deployed engine cannot serve, and the commands that change this", async () => {
    await store.writeDeployedEngine(deployed([]));
    const { code, stdout } = await publish();
    expect(code).toBe(0);
    expect(stdout).toMatch(
      /^student: .*^toy: .*\d+ .*functions.*^student: .*edgetier engine build.*edgetier engine publish/ms,
    );
    expect(stdout).not.toContain("teacher:");
  }, 60_000);
});

describe("model publish with a deployed engine", () => {
  it("compares the version with the deployed engine", async () => {
    const cases: [engine: DeployedEngine, notAtTheEdge: unknown[]][] = [
      [deployed(allFunctions), [{ tier: "student", reason: expect.any(String) }]],
      [{ kind: "full", source }, []],
    ];
    let last: unknown;
    for (const [engine, notAtTheEdge] of cases) {
      await store.writeDeployedEngine(engine);
      last = JSON.parse((await publish("--json")).stdout);
      expect(last).toMatchObject({ withoutSnapshot: [invalidGraphSkip], notAtTheEdge });
    }
    expect(last).toMatchObject({ outcome: "unchanged" }); // the same snapshots again
  }, 60_000);

  it("publishes no snapshots with --no-snapshots, because the full engine opens the models without", async () => {
    await store.writeDeployedEngine(deployed(allFunctions));
    const { version, ...result } = JSON.parse((await publish("--no-snapshots", "--json")).stdout);
    const reason = expect.any(String);
    expect(result).toMatchObject({
      outcome: "published",
      withoutSnapshot: [],
      notAtTheEdge: [
        { tier: "toy", reason },
        { tier: "student", reason },
      ],
    });
    expect(
      (await store.readManifest("sample", version))?.tiers.map((tier) => tier.snapshot),
    ).toEqual([undefined, undefined, undefined]);
  }, 60_000);
});
