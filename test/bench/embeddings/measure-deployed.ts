// Measures the deployed sentence encoder in its own Worker: upload size, memory, startup and request latency, and vectors.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildProjectDeployment } from "../../../src/cli/build-deployment.ts";
import {
  measureAboveEmptyWorker,
  measureCold,
  measureSteady,
} from "../../../src/cli/doctor/measure-memory.ts";
import { measureStartup } from "../../../src/cli/doctor/measure-startup.ts";
import { measureUpload } from "../../../src/cli/doctor/measure-upload.ts";
import { createSampleRequests } from "../../../src/cli/doctor/sample-requests.ts";
import { PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import { publishProjects } from "../../../src/cli/local/publish-projects.ts";
import { startLocalS3 } from "../../../src/cli/local/s3.ts";
import { bundleWorker, type WorkerUpload } from "../../../src/cli/local/upload.ts";
import {
  type WorkerdEdge,
  startWorkerdEdge,
  startInspectedEdge,
} from "../../../src/cli/local/workerd-edge.ts";
import { parseEdgeConfig } from "../../../src/http/config.ts";
import { embeddingsResponseSchema } from "../../../src/protocol/embeddings.ts";
import type { EmbeddingProject } from "../../../src/registry/manifest.ts";
import type { PublishSource } from "../../../src/registry/publish.ts";
import { toS3Variables } from "../../../src/registry/s3-config.ts";
import type { IsolateMemory } from "../../../src/toolchain/doctor-measurements.ts";
import type { EngineReport } from "../../../src/toolchain/engine/engine-report.ts";

export interface DeployedMeasurements {
  readonly report: EngineReport;
  readonly uploadBytes: number;
  readonly startupCpuMs: number;
  readonly cold: IsolateMemory;
  readonly steady: IsolateMemory;
  readonly processBytes: number | undefined;
  /** Latencies of the first request to each new isolate. The second request repeats it immediately. */
  readonly firstMs: readonly number[];
  readonly secondMs: readonly number[];
  /** Vectors of `texts` from the Worker. */
  readonly vectors: readonly Float32Array[];
}

const BATCH_SIZE = 32;
const TIMEOUT_MS = 1_800_000;

export interface DeployedOptions {
  /** Number of new isolates for the first and second request. */
  readonly isolates: number;
  readonly texts: readonly string[];
  readonly log: (line: string) => void;
}

/** The Worker's upload and the environment that it is started with. */
interface DeployedWorker {
  readonly upload: WorkerUpload;
  readonly variables: Readonly<Record<string, string>>;
  readonly model: string;
}

export async function measureDeployed(
  source: PublishSource,
  project: EmbeddingProject,
  { isolates, texts, log }: DeployedOptions,
): Promise<DeployedMeasurements> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const folder = await mkdtemp(join(tmpdir(), "edgetier-embeddings-"));
  const s3 = await startLocalS3({ port: 0 });
  try {
    const deployment = await buildProjectDeployment([source], {
      outFolder: join(PROJECT_ROOT, "dist/bench-embeddings"),
      log,
    });
    const file = join(folder, "worker.bundle");
    const upload = await bundleWorker(file, { entry: "test/bench/embeddings/worker.ts" });
    await publishProjects([source], deployment, s3.options, log);
    const worker = { upload, variables: toS3Variables(s3.options), model: project.model };
    return {
      report: deployment.report,
      ...(await measureMemory(worker, project, signal)),
      ...(await measureFirstRequests(worker, texts, isolates)),
      vectors: await withEdge(startWorkerdEdge(upload, worker.variables), ({ url }) =>
        embedInBatches(url, project.model, texts),
      ),
      uploadBytes: measureUpload(upload).totalBytes,
      startupCpuMs: await measureStartup(file, signal),
    };
  } finally {
    await s3.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

async function measureMemory(
  { upload, variables }: DeployedWorker,
  project: EmbeddingProject,
  signal: AbortSignal,
): Promise<Pick<DeployedMeasurements, "cold" | "steady" | "processBytes">> {
  const { coldRequest, steadyRequests } = createSampleRequests(
    project,
    "",
    parseEdgeConfig({ ...upload.variables, ...variables }),
  );
  const workload = { coldRequests: [coldRequest], steadyRequests };
  const assertOk = (status: number, body: string) => {
    if (status !== 200) throw new Error(`the Worker answered ${status}: ${body}`);
  };
  const cold = await withEdge(startInspectedEdge(upload, variables), (edge) =>
    measureCold(edge, workload, assertOk, signal),
  );
  const { isolate: steady, peakResidentBytes = 0 } = await withEdge(
    startInspectedEdge(upload, variables),
    (edge) => measureSteady(edge, workload, assertOk, signal),
  );
  const processBytes = await measureAboveEmptyWorker(peakResidentBytes, upload, workload, signal);
  return { cold, steady, processBytes };
}

async function measureFirstRequests(
  { upload, variables, model }: DeployedWorker,
  texts: readonly string[],
  isolates: number,
): Promise<Pick<DeployedMeasurements, "firstMs" | "secondMs">> {
  const firstMs: number[] = [];
  const secondMs: number[] = [];
  for (let isolate = 0; isolate < isolates; isolate++) {
    await withEdge(startWorkerdEdge(upload, variables), async ({ url }) => {
      for (const latenciesMs of [firstMs, secondMs]) {
        const sentAtMs = performance.now();
        await embed(url, model, [texts[isolate] ?? "a"]);
        latenciesMs.push(performance.now() - sentAtMs);
      }
    });
  }
  return { firstMs, secondMs };
}

async function withEdge<Edge extends WorkerdEdge, Result>(
  starting: Promise<Edge>,
  use: (edge: Edge) => Promise<Result>,
): Promise<Result> {
  const edge = await starting;
  try {
    return await use(edge);
  } finally {
    await edge.stop();
  }
}

async function embedInBatches(
  url: string,
  model: string,
  texts: readonly string[],
): Promise<Float32Array[]> {
  const vectors: Float32Array[] = [];
  for (let start = 0; start < texts.length; start += BATCH_SIZE)
    vectors.push(...(await embed(url, model, texts.slice(start, start + BATCH_SIZE))));
  return vectors;
}

async function embed(
  url: string,
  model: string,
  input: readonly string[],
): Promise<Float32Array[]> {
  const response = await fetch(`${url}/v1/embeddings`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-deadline-ms": "60000" },
    body: JSON.stringify({ model, input, cache: "bypass" }),
  });
  const body = await response.text();
  if (!response.ok) throw new Error(`the Worker answered ${response.status}: ${body}`);
  return embeddingsResponseSchema
    .parse(JSON.parse(body))
    .data.map(({ embedding }) => Float32Array.from(embedding as number[]));
}
