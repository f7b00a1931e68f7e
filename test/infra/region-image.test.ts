// The region's image: what its Dockerfile puts together is enough for the server, and no more; it runs as it says.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { readRegionSettings } from "../../functions/region/settings.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
import { postRequest, publishMoodModel, createTextBody } from "../region/region-fixture.ts";
import {
  contextSources,
  readEnvironment,
  lastInstruction,
  lastStage,
  buildStageFolder,
  stageLineage,
  readStages,
  type Stage,
} from "./dockerfile.ts";

const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));
const DOCKERFILE = join(REPOSITORY, "infra/region/Dockerfile");

let stages: Stage[];
/** What the image `cpu` is made of, the last stage last. */
let image: Stage[];

beforeAll(async () => {
  stages = await readStages(DOCKERFILE);
  image = stageLineage(stages, lastStage(stages));
});

/** A command in exec form. */
const commandOf = (keyword: string): string[] =>
  JSON.parse(lastInstruction(image, keyword)?.replace(/^CMD /, "") ?? "");

describe("Dockerfile", () => {
  it("is made from exact versions, and from the Node that the project is tested with", async () => {
    const cuda = await readStages(DOCKERFILE, { VARIANT: "cuda" });
    const bases = [...stages, ...cuda]
      .map((one) => one.base)
      .filter((base) => !stages.some((one) => one.name === base));
    expect([...new Set(bases)]).toEqual([
      `node:${packageJson.devDependencies.node}-bookworm-slim`,
      expect.stringMatching(/^nvidia\/cuda:12\.\d+\.\d+-cudnn-runtime-ubuntu24\.04$/),
    ]);
    expect(cuda.at(-1)?.base).toBe("cuda");
  });

  it("runs Node itself, as nobody, so that a signal to stop reaches it", () => {
    expect(commandOf("ENTRYPOINT")).toEqual(["node", "functions/region/main.ts"]);
    expect(lastInstruction(image, "CMD")).toBeUndefined();
    expect(lastInstruction(image, "STOPSIGNAL")).toBe("SIGTERM");
    expect(lastInstruction(image, "USER")).toMatch(/^[1-9]\d{3,}:[1-9]\d{3,}$/); // by number: Kubernetes cannot tell whether a name is root
  });

  it("sets only what the region knows, and exposes its port", () => {
    const environment = readEnvironment(image);
    const s3 = {
      EDGETIER_S3_ENDPOINT: "https://s3.example",
      EDGETIER_S3_BUCKET: "b",
      EDGETIER_S3_ACCESS_KEY_ID: "k",
      EDGETIER_S3_SECRET_ACCESS_KEY: "s",
    };
    const settings = readRegionSettings({ ...environment, ...s3 });
    expect(settings.EDGETIER_REGION_HOST).toBe("0.0.0.0");
    expect(lastInstruction(image, "EXPOSE")).toBe(String(settings.EDGETIER_REGION_PORT));
    expect(Object.keys(settings)).toEqual(
      expect.arrayContaining(
        Object.keys(environment).filter((name) => name.startsWith("EDGETIER_")),
      ),
    );
  });

  it("lets the build see what it copies", async () => {
    const [all, ...allowed] = (await readFile(`${DOCKERFILE}.dockerignore`, "utf8"))
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    expect(all).toBe("*");
    const sources = stages.flatMap(contextSources);
    expect(
      sources.filter(
        (source) => !allowed.some((line) => `${source}/`.startsWith(`${line.slice(1)}/`)),
      ),
    ).toEqual([]);
    expect(
      allowed.filter(
        (line) => !sources.some((source) => `${source}/`.startsWith(`${line.slice(1)}/`)),
      ),
    ).toEqual([]);
  });

  it("copies no folder of which the server imports nothing", async () => {
    const { metafile } = await build({
      absWorkingDir: REPOSITORY,
      entryPoints: ["functions/region/main.ts", "src/runtime/native/*.ts"],
      bundle: true,
      platform: "node",
      format: "esm",
      packages: "external",
      write: false,
      metafile: true,
      outdir: "none",
    });
    const imported = Object.keys(metafile.inputs);
    const folders = contextSources(lastStage(stages)).map((source) => source.replace(/\*.*$/, ""));
    expect(folders.filter((folder) => !imported.some((path) => path.startsWith(folder)))).toEqual(
      [],
    );
  });

  it("fetches CUDA's provider by a flag that onnxruntime-node takes, and looks for it where it will be", () => {
    const require = createRequire(import.meta.url);
    const { manifests, requirements } = require("onnxruntime-node/script/install-metadata.js");
    expect(requirements["linux/x64"]).toContain("cuda12");
    const steps =
      lastInstruction(
        stages.filter((one) => one.name === "cuda-dependencies"),
        "RUN",
      ) ?? "";
    expect(steps).toContain(
      "ONNXRUNTIME_NODE_INSTALL=cuda12 node node_modules/onnxruntime-node/script/install.js",
    );
    const file = /bin\/napi-v6\/linux\/x64\/(\S+)/.exec(steps)?.[1];
    expect(Object.keys(manifests["linux/x64:cuda12"])).toContain(`./${file}`);
  });
});

describe("the image's content", () => {
  let folder: string;
  let app: string;
  let s3: TestS3;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "edgetier-image-"));
    await chmod(folder, 0o755); // the server is not root
    // The steps that need no root are run as they are written, `npm ci` among them.
    const root = await buildStageFolder(stages, lastStage(stages), {
      context: REPOSITORY,
      folder,
      runs: ({ name }) => name === "dependencies",
    });
    await chmod(root, 0o755);
    app = join(root, "app");
    s3 = await startTestS3();
    await publishMoodModel(createModelStore(createS3ObjectStore(s3.options)));
  }, 180_000);
  afterAll(async () => {
    await s3?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it("has production dependencies only, and of the native ones only those for Linux", async () => {
    const has = (path: string) =>
      access(join(app, "node_modules", path)).then(
        () => true,
        () => false,
      );
    expect(
      await Promise.all(
        ["onnxruntime-node/bin/napi-v6/linux", "@aws-sdk/client-s3", "zod"].map(has),
      ),
    ).toEqual([true, true, true]);
    const absent = [
      "typescript",
      "vitest",
      "wrangler",
      "onnxruntime-web",
      "onnxruntime-node/bin/napi-v6/win32",
      "onnxruntime-node/bin/napi-v6/darwin",
    ];
    expect(await Promise.all(absent.map(has))).toEqual(absent.map(() => false));
  });

  it("serves a model of the store, says that it lives, and stops on the signal", async () => {
    const environment = {
      PATH: process.env["PATH"] ?? "",
      ...readEnvironment(image),
      ...toS3Variables(s3.options),
      EDGETIER_REGION_PORT: String(await freePort()),
      EDGETIER_REGION_PRELOAD: "mood@1",
    };
    const [, ...probe] = commandOf("HEALTHCHECK");
    const healthy = () =>
      promisify(execFile)(process.execPath, probe, { env: environment }).then(
        () => true,
        () => false,
      );
    expect(await healthy()).toBe(false);

    const [, ...entry] = commandOf("ENTRYPOINT");
    const nobody =
      process.getuid?.() === 0
        ? { uid: Number(lastInstruction(image, "USER")?.split(":")[0]) }
        : {};
    const child = spawn(process.execPath, entry, {
      cwd: app,
      env: { ...environment, TMPDIR: "/nonexistent" },
      stdio: ["ignore", "ignore", "inherit"],
      ...nobody,
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const exit = once(child, "exit");
    await expect.poll(healthy, { timeout: 15_000 }).toBe(true);

    const url = `http://127.0.0.1:${environment.EDGETIER_REGION_PORT}/v2`;
    await expect
      .poll(async () => (await fetch(`${url}/health/ready`)).status, { timeout: 10_000 })
      .toBe(200);
    const answer = await fetch(
      `${url}/models/mood/versions/1/infer`,
      postRequest(createTextBody(["good"])),
    );
    expect(await answer.json()).toMatchObject({ outputs: [{ name: "logits", data: [1, 0] }] });

    child.kill("SIGTERM");
    expect(await exit).toEqual([0, null]);
  }, 60_000);
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : 0;
}
