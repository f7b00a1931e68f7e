// Region image: the Dockerfile's instructions, and the content that it builds, which runs the server without Docker.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { readRegionSettings } from "../../functions/region/settings.ts";
import packageJson from "../../package.json" with { type: "json" };
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import { postRequest, publishMoodModel, createTextBody } from "../region/region-fixture.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";
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
/** Stages of the image `cpu`, last stage last. */
let image: Stage[];

beforeAll(async () => {
  stages = await readStages(DOCKERFILE);
  image = stageLineage(stages, lastStage(stages));
});

/** Reads a command in exec form. */
const readCommand = (keyword: string): string[] =>
  JSON.parse(lastInstruction(image, keyword)?.replace(/^CMD /, "") ?? "");

describe("Dockerfile", () => {
  it("uses exact versions, and the project's version of Node", async () => {
    const cuda = await readStages(DOCKERFILE, { VARIANT: "cuda" });
    const bases = [...stages, ...cuda]
      .map(({ base }) => base)
      .filter((base) => !stages.some(({ name }) => name === base));
    expect([...new Set(bases)]).toEqual([
      `node:${packageJson.devDependencies.node}-bookworm-slim`,
      expect.stringMatching(/^nvidia\/cuda:12\.\d+\.\d+-cudnn-runtime-ubuntu24\.04$/),
    ]);
    expect(cuda.at(-1)?.base).toBe("cuda");
  });

  it("runs Node as process 1 without root rights, so that it receives signals", () => {
    expect(readCommand("ENTRYPOINT")).toEqual(["node", "functions/region/main.ts"]);
    expect(lastInstruction(image, "CMD")).toBeUndefined();
    expect(lastInstruction(image, "STOPSIGNAL")).toBe("SIGTERM");
    // The user is a number, because Kubernetes cannot determine whether a name is root.
    expect(lastInstruction(image, "USER")).toMatch(/^[1-9]\d{3,}:[1-9]\d{3,}$/);
  });

  it("sets only known variables, and exposes the region's port", () => {
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
});

describe("the Dockerfile's copies", () => {
  it("match the paths that .dockerignore allows", async () => {
    const [excluded, ...allowed] = (await readFile(`${DOCKERFILE}.dockerignore`, "utf8"))
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    expect(excluded).toBe("*");
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

  it("contain only folders from which the server imports a file", async () => {
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

  it("include the CUDA provider by a flag and at a path of onnxruntime-node", () => {
    const require = createRequire(import.meta.url);
    const { manifests, requirements } = require("onnxruntime-node/script/install-metadata.js");
    expect(requirements["linux/x64"]).toContain("cuda12");
    const steps =
      lastInstruction(
        stages.filter(({ name }) => name === "cuda-dependencies"),
        "RUN",
      ) ?? "";
    expect(steps).toContain(
      "ONNXRUNTIME_NODE_INSTALL=cuda12 node node_modules/onnxruntime-node/script/install.js",
    );
    const file = /bin\/napi-v6\/linux\/x64\/(\S+)/.exec(steps)?.[1];
    expect(Object.keys(manifests["linux/x64:cuda12"])).toContain(`./${file}`);
  });
});

/** Whether the image contains these paths of `node_modules`. */
const PACKAGES = {
  "onnxruntime-node/bin/napi-v6/linux": true,
  "@aws-sdk/client-s3": true,
  zod: true,
  typescript: false,
  vitest: false,
  wrangler: false,
  "onnxruntime-web": false,
  "onnxruntime-node/bin/napi-v6/win32": false,
  "onnxruntime-node/bin/napi-v6/darwin": false,
};

async function checkPackages(
  app: string,
  paths: readonly string[],
): Promise<Record<string, boolean>> {
  const found = await Promise.all(
    paths.map(async (path) => {
      const exists = await access(join(app, "node_modules", path)).then(
        () => true,
        () => false,
      );
      return [path, exists] as const;
    }),
  );
  return Object.fromEntries(found);
}

describe("the image's content", () => {
  let folder: string;
  let app: string;
  let s3: TestS3;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "edgetier-image-"));
    await chmod(folder, 0o755); // The server does not run as root.
    // Steps without root rights run as written, including `npm ci`.
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

  it("has only production dependencies, with native files only for Linux", async () => {
    expect(await checkPackages(app, Object.keys(PACKAGES))).toEqual(PACKAGES);
  });

  it("serves a model of the store, passes its health check, and stops on SIGTERM", async () => {
    const environment = {
      PATH: process.env["PATH"] ?? "",
      ...readEnvironment(image),
      ...toS3Variables(s3.options),
      EDGETIER_REGION_PORT: String(await findFreePort()),
      EDGETIER_REGION_PRELOAD: "mood@1",
    };
    const [, ...probe] = readCommand("HEALTHCHECK");
    const isHealthy = () =>
      promisify(execFile)(process.execPath, probe, { env: environment }).then(
        () => true,
        () => false,
      );
    expect(await isHealthy()).toBe(false);

    const child = startServer(app, environment);
    onTestFinished(() => void child.kill("SIGKILL"));
    const exit = once(child, "exit");
    await expect.poll(isHealthy, { timeout: 15_000 }).toBe(true);

    const url = `http://127.0.0.1:${environment.EDGETIER_REGION_PORT}/v2`;
    await expect
      .poll(async () => (await fetch(`${url}/health/ready`)).status, { timeout: 10_000 })
      .toBe(200);
    const response = await fetch(
      `${url}/models/mood/versions/1/infer`,
      postRequest(createTextBody(["good"])),
    );
    expect(await response.json()).toMatchObject({ outputs: [{ name: "logits", data: [1, 0] }] });

    child.kill("SIGTERM");
    const [exitCode, signal] = await exit;
    expect({ exitCode, signal }).toEqual({ exitCode: 0, signal: null });
  }, 60_000);
});

/** Starts the image's entry point as the image's user, if the test runs as root. */
function startServer(app: string, environment: Readonly<Record<string, string>>) {
  const [, ...entryPoint] = readCommand("ENTRYPOINT");
  const user =
    process.getuid?.() === 0 ? { uid: Number(lastInstruction(image, "USER")?.split(":")[0]) } : {};
  return spawn(process.execPath, entryPoint, {
    cwd: app,
    env: { ...environment, TMPDIR: "/nonexistent" },
    stdio: ["ignore", "ignore", "inherit"],
    ...user,
  });
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  return typeof address === "object" && address !== null ? address.port : 0;
}
