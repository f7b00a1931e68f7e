// Fixture system: a real S3, a region process and the Worker in workerd. Its models are tensor models, two image models, two
// embedding models and the toy model.
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PROJECT_ROOT, REGION_ENTRY } from "../../src/cli/local/paths.ts";
import { startLocalRegion } from "../../src/cli/local/region.ts";
import { startLocalS3 } from "../../src/cli/local/s3.ts";
import { bundleWorker } from "../../src/cli/local/upload.ts";
import { startWorkerdEdge } from "../../src/cli/local/workerd-edge.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import type { ModelStore } from "../../src/registry/model-store.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import { toS3Variables } from "../../src/registry/s3-config.ts";
import { publishColorModel } from "./color-model.ts";
import { publishEmbeddingModel } from "./embedding-model.ts";
import { buildFixtureDeployment } from "./fixture-deployment.ts";
import { publishStagedModel } from "./staged-model.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";
import {
  identityGraph,
  int8MatMulGraph,
  publishTensorModel,
  stringIdentityGraph,
} from "./tensor-model.ts";
import { publishToyModel } from "./toy-model.ts";

/** Model that only the region serves. */
export const REGION_EMBEDDING_MODEL = "far-vectors";

export interface FixtureSystem {
  readonly urls: { readonly edge: string; readonly region: string };
  /** Proxy between the edge and the region. */
  readonly proxy: TcpProxy;
  /** Log lines of the region since it was ready, and all log lines of the edge. */
  readonly output: { readonly region: readonly string[]; edge(): string };
  stop(): Promise<void>;
}

export interface FixtureSystemOptions {
  readonly edgeVariables?: Readonly<Record<string, string>>;
  readonly regionVariables?: Readonly<Record<string, string>>;
}

export async function startFixtureSystem({
  edgeVariables = {},
  regionVariables = {},
}: FixtureSystemOptions = {}): Promise<FixtureSystem> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-tensors-"));
  const stops: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })];
  const stop = async () => {
    for (const stopPart of stops.toReversed()) await stopPart();
  };
  try {
    const s3 = await startLocalS3({ port: 0 });
    stops.push(s3.stop);
    const models = await publishFixtureModels(createModelStore(createS3ObjectStore(s3.options)));
    const lines: string[] = [];
    const startRegion = async () => {
      const started = await startLocalRegion({
        file: REGION_ENTRY,
        port: 0,
        store: s3.options,
        preload: models,
        variables: regionVariables,
        onLine: (line) => lines.push(line),
      });
      stops.push(started.stop);
      return started;
    };
    const bundle = async () => {
      await buildFixtureDeployment("fixture-worker");
      return await bundleWorker(join(folder, "worker.bundle"), {
        entry: "test/support/fixture-worker.ts",
      });
    };
    const [region, upload] = await Promise.all([startRegion(), bundle()]);
    const proxy = await startTcpProxy();
    stops.push(proxy.close);
    proxy.target = region.url;
    const edge = await startWorkerdEdge(upload, {
      ...toS3Variables(s3.options),
      EDGETIER_REGION_URL: proxy.url,
      ...edgeVariables,
    });
    stops.push(edge.stop);
    return {
      urls: { edge: edge.url, region: region.url },
      proxy,
      output: { region: lines, edge: edge.output },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @returns the names of the models */
async function publishFixtureModels(store: ModelStore): Promise<string[]> {
  const fixture = async (name: string) =>
    new Uint8Array(await readFile(join(PROJECT_ROOT, `test/fixtures/${name}.onnx`)));
  const matmul = int8MatMulGraph(await fixture("int8-matmul"));
  await publishToyModel(store, await fixture("toy"), { deadlineMs: 10_000 });
  const deadlines = { deadlineMs: 10_000 };
  await publishColorModel(store, deadlines);
  await publishEmbeddingModel(store, deadlines);
  await publishEmbeddingModel(store, {
    ...deadlines,
    model: REGION_EMBEDDING_MODEL,
    places: ["region"],
  });
  await publishStagedModel(store, deadlines);
  const manifests = [
    await publishTensorModel(
      store,
      "identity",
      identityGraph(await fixture("identity-all")),
      deadlines,
    ),
    await publishTensorModel(store, "matmul", matmul, { ...deadlines, labels: ["left", "right"] }),
    await publishTensorModel(
      store,
      "words",
      stringIdentityGraph(await fixture("string-identity")),
      deadlines,
    ),
    await publishTensorModel(store, "far", matmul, { ...deadlines, places: ["region"] }),
  ];
  return [
    "toy",
    "colours",
    REGION_EMBEDDING_MODEL,
    "staged",
    ...manifests.map(({ model }) => model),
  ];
}
