// The sentence encoder as it is deployed, alone in a Worker of its own: what that uploads and holds, and how long it takes.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  measureAboveEmptyWorker,
  measureCold,
  measureSteady,
} from "../../../src/cli/doctor/measure-memory.ts";
import { measureStartup } from "../../../src/cli/doctor/measure-startup.ts";
import { measureUpload } from "../../../src/cli/doctor/measure-upload.ts";
import { createSampleRequests } from "../../../src/cli/doctor/sample-requests.ts";
import { buildProjectDeployment } from "../../../src/cli/build-deployment.ts";
import {
  type WorkerdEdge,
  startWorkerdEdge,
  startInspectedEdge,
} from "../../../src/cli/local/workerd-edge.ts";
import { publishProjects } from "../../../src/cli/local/publish-projects.ts";
import { PROJECT_ROOT } from "../../../src/cli/local/paths.ts";
import { startLocalS3 } from "../../../src/cli/local/s3.ts";
import { bundleWorker } from "../../../src/cli/local/upload.ts";
import type { IsolateMemory } from "../../../src/toolchain/doctor-measurements.ts";
import type { EngineReport } from "../../../src/toolchain/engine/engine-report.ts";
import { parseEdgeConfig } from "../../../src/http/config.ts";
import { embeddingsResponseSchema } from "../../../src/protocol/embeddings.ts";
import type { EmbeddingProject } from "../../../src/registry/manifest.ts";
import type { PublishSource } from "../../../src/registry/publish.ts";
import { toS3Variables } from "../../../src/registry/s3-config.ts";

export interface DeployedMeasurements {
  readonly report: EngineReport;
  readonly uploadBytes: number;
  readonly startupCpuMs: number;
  readonly cold: IsolateMemory;
  readonly steady: IsolateMemory;
  readonly processBytes: number | undefined;
  /** The first request to each of some fresh isolates, and one more like it right after. */
  readonly firstMs: readonly number[];
  readonly secondMs: readonly number[];
  /** Vectors of `texts`, as the Worker gives them. */
  readonly vectors: readonly Float32Array[];
}

const BATCH = 32;

export async function measureDeployed(
  source: PublishSource,
  project: EmbeddingProject,
  options: {
    readonly isolates: number;
    readonly texts: readonly string[];
    readonly log: (line: string) => void;
  },
): Promise<DeployedMeasurements> {
  const { isolates, texts, log } = options;
  const signal = AbortSignal.timeout(1_800_000);
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
    const variables = toS3Variables(s3.options);
    const withEdge = async <Edge extends WorkerdEdge, Result>(
      starting: Promise<Edge>,
      use: (edge: Edge) => Promise<Result>,
    ): Promise<Result> => {
      const edge = await starting;
      try {
        return await use(edge);
      } finally {
        await edge.stop();
      }
    };
    const { coldRequest: first, steadyRequests } = createSampleRequests(
      project,
      "",
      parseEdgeConfig({ ...upload.variables, ...variables }),
    );
    const load = { coldRequests: [first], steadyRequests };
    const checked = (status: number, body: string) => {
      if (status !== 200) throw new Error(`the Worker answered ${status}: ${body}`);
    };
    const cold = await withEdge(startInspectedEdge(upload, variables), (edge) =>
      measureCold(edge, load, checked, signal),
    );
    const steady = await withEdge(startInspectedEdge(upload, variables), (edge) =>
      measureSteady(edge, load, checked, signal),
    );
    const processBytes = await measureAboveEmptyWorker(
      steady.peakResidentBytes ?? 0,
      upload,
      load,
      signal,
    );

    const firstMs: number[] = [];
    const secondMs: number[] = [];
    for (let isolate = 0; isolate < isolates; isolate++) {
      await withEdge(startWorkerdEdge(upload, variables), async ({ url }) => {
        for (const times of [firstMs, secondMs]) {
          const sentAtMs = performance.now();
          await embed(url, project.model, [texts[isolate] ?? "a"]);
          times.push(performance.now() - sentAtMs);
        }
      });
    }
    const vectors = await withEdge(startWorkerdEdge(upload, variables), async ({ url }) => {
      const all: Float32Array[] = [];
      for (let start = 0; start < texts.length; start += BATCH)
        all.push(...(await embed(url, project.model, texts.slice(start, start + BATCH))));
      return all;
    });
    return {
      report: deployment.report,
      uploadBytes: measureUpload(upload).totalBytes,
      startupCpuMs: await measureStartup(file, signal),
      cold,
      steady: steady.isolate,
      processBytes,
      firstMs,
      secondMs,
      vectors,
    };
  } finally {
    await s3.stop();
    await rm(folder, { recursive: true, force: true });
  }
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
