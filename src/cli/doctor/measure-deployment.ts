// Measures this project's deployment: bundles it as `wrangler deploy` would, and runs the bundle in a separate workerd with
// a local model store.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type EdgeConfig, parseEdgeConfig } from "../../http/config.ts";
import { embeddingsResponseSchema } from "../../protocol/embeddings.ts";
import {
  type ModelDetail,
  modelDetailSchema,
  readEdgeTierStatus,
} from "../../protocol/model-detail.ts";
import { predictResponseSchema } from "../../protocol/predict.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { toS3Variables } from "../../registry/s3-config.ts";
import type { MeasuredGraph, DeploymentMeasurements } from "../../toolchain/doctor-measurements.ts";
import type { EngineReport } from "../../toolchain/engine/engine-report.ts";
import { readProjects } from "../../toolchain/project.ts";
import { buildProjectDeployment } from "../build-deployment.ts";
import { cliErrors } from "../errors.ts";
import { MODELS_FOLDER } from "../local/paths.ts";
import { publishProjects } from "../local/publish-projects.ts";
import { startLocalS3 } from "../local/s3.ts";
import { bundleWorker, type WorkerUpload } from "../local/upload.ts";
import { type WorkerdEdge, type InspectedEdge, startInspectedEdge } from "../local/workerd-edge.ts";
import {
  measureAboveEmptyWorker,
  type MemoryWorkload,
  measureCold,
  measureSteady,
} from "./measure-memory.ts";
import { measureStartup } from "./measure-startup.ts";
import { measureUpload } from "./measure-upload.ts";
import { createSampleRequests } from "./sample-requests.ts";

export interface DoctorOptions {
  readonly log: (line: string) => void;
  /** Aborts the measurement and stops started services. */
  readonly signal: AbortSignal;
}

export interface MeasuredDeployment {
  readonly measured: DeploymentMeasurements;
  readonly report: EngineReport;
}

/** @throws invalid_configuration, invalid_project, component_failed, not_measured */
export async function measureDeployment({
  log,
  signal,
}: DoctorOptions): Promise<MeasuredDeployment> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-doctor-"));
  try {
    const sources = await readProjects(MODELS_FOLDER, log);
    log("building the engine and its snapshots");
    const deployment = await buildProjectDeployment(sources, { log });
    signal.throwIfAborted();
    log("bundling the Worker as `wrangler deploy` would");
    const file = join(folder, "worker.bundle");
    const upload = await bundleWorker(file, { signal });
    log("measuring the start-up");
    const startupCpuMs = await measureStartup(file, signal);
    const s3 = await startLocalS3({ port: 0 });
    try {
      log("publishing the models to a local store");
      await publishProjects(sources, deployment, s3.options, log);
      signal.throwIfAborted();
      const { memory, graphs } = await measureServing(
        upload,
        sources,
        deployment.report,
        toS3Variables(s3.options),
        { log, signal },
      );
      return {
        measured: { upload: measureUpload(upload), startupCpuMs, memory, graphs },
        report: deployment.report,
      };
    } finally {
      await s3.stop();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Measures memory while the Worker serves requests: once after cold starts, once after steady load. */
async function measureServing(
  upload: WorkerUpload,
  sources: readonly PublishSource[],
  report: EngineReport,
  variables: Readonly<Record<string, string>>,
  { log, signal }: DoctorOptions,
): Promise<Pick<DeploymentMeasurements, "memory" | "graphs">> {
  const withWorker = async <Result>(
    measure: (edge: InspectedEdge) => Promise<Result>,
  ): Promise<Result> => {
    const edge = await startInspectedEdge(upload, variables);
    try {
      return await measure(edge);
    } catch (error) {
      if (edge.output() !== "") log(edge.output());
      throw error;
    } finally {
      await edge.stop();
    }
  };
  const { details, load, cold } = await withWorker(async (edge) => {
    const details = await Promise.all(
      sources.map(({ project }) => fetchModelDetail(edge, project.model, signal)),
    );
    const load = createWorkload(
      sources,
      details,
      parseEdgeConfig({ ...upload.variables, ...variables }),
    );
    log(`measuring memory: ${load.coldRequests.length} first predictions`);
    return {
      details,
      load,
      cold: await measureCold(
        edge,
        load,
        (status, body) => countInputs(status, body, new Map()),
        signal,
      ),
    };
  });
  const inputs = new Map<string, number>();
  log(
    `measuring memory: the same in another isolate, then ${load.steadyRequests.length} further requests`,
  );
  const { isolate: steady, peakResidentBytes } = await withWorker((edge) =>
    measureSteady(edge, load, (status, body) => countInputs(status, body, inputs), signal),
  );
  log("measuring the process of an empty Worker");
  const processBytes = await measureAboveEmptyWorker(peakResidentBytes, upload, load, signal);
  return {
    memory: { cold, steady, processBytes },
    graphs: details.flatMap((detail) => toExaminedGraphs(detail, report, inputs)),
  };
}

async function fetchModelDetail(
  { url }: WorkerdEdge,
  model: string,
  signal: AbortSignal,
): Promise<ModelDetail> {
  const response = await fetch(`${url}/v1/models/${model}`, { signal });
  const body = await response.text();
  if (!response.ok)
    throw cliErrors.notMeasured(
      `Model ${model}`,
      `the Worker responded with status ${response.status}: ${body}`,
    );
  return modelDetailSchema.parse(JSON.parse(body));
}

/** Creates requests to the models that the edge can serve alone, because the measurement has no region. */
function createWorkload(
  sources: readonly PublishSource[],
  details: readonly ModelDetail[],
  config: EdgeConfig,
): MemoryWorkload {
  const requests = sources.flatMap(({ project }) => {
    const served = details
      .find(({ model }) => model === project.model)
      ?.tiers.findLast(
        ({ edge }) => edge !== undefined && readEdgeTierStatus(edge) !== "unsupported",
      );
    return served === undefined || project.task === "tensor"
      ? []
      : [createSampleRequests(project, served.id, config)];
  });
  return {
    coldRequests: requests.map(({ coldRequest }) => coldRequest),
    steadyRequests: requests.flatMap(({ steadyRequests }) => steadyRequests),
  };
}

/**
 * Counts inputs by model and tier; for an embedding model, which has one edge tier, by model.
 * @throws not_measured for an error response or a failed tier
 */
function countInputs(status: number, body: string, inputs: Map<string, number>): void {
  if (status !== 200)
    throw cliErrors.notMeasured("Memory", `the Worker responded with status ${status}: ${body}`);
  const json: unknown = JSON.parse(body);
  const embeddings = embeddingsResponseSchema.safeParse(json).data;
  if (embeddings !== undefined) {
    const model = embeddings.model.split("@")[0] ?? "";
    inputs.set(model, (inputs.get(model) ?? 0) + embeddings.data.length);
    return;
  }
  const { model, usage } = predictResponseSchema.parse(json);
  for (const { tier, inputs: count, error } of usage.tiers) {
    if (error !== undefined)
      throw cliErrors.notMeasured("Memory", `tier ${tier} of ${model} failed: ${error}`);
    inputs.set(`${model}/${tier}`, (inputs.get(`${model}/${tier}`) ?? 0) + count);
  }
}

function toExaminedGraphs(
  { model, tiers }: ModelDetail,
  report: EngineReport,
  inputs: ReadonlyMap<string, number>,
): MeasuredGraph[] {
  return tiers.flatMap(({ id, edge }) => {
    if (edge === undefined) return [];
    const built = report.graphs.find((graph) => graph.model === model && graph.tier === id);
    return [
      {
        model,
        tier: id,
        sha256: built?.sha256 ?? "",
        ...edge,
        status: readEdgeTierStatus(edge),
        memoryBytes: built?.snapshot?.memoryBytes ?? null,
        measuredInputs: inputs.get(`${model}/${id}`) ?? inputs.get(model) ?? null,
      },
    ];
  });
}
