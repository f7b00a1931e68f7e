// workerd edge: runs an upload in plain workerd, without wrangler's development server. The server's proxy costs more time than
// the Worker, and its memory could not be separated from the Worker's.

import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { processErrors } from "../../core/process-errors.ts";
import { type Child, startChild } from "./child.ts";
import { LOOPBACK } from "./defaults.ts";
import { findFreePort } from "./ports.ts";
import type { WorkerUpload, UploadModule } from "./upload.ts";

const READY_TIMEOUT_MS = 30_000;
/** Maximum lines of output in an error; the first lines contain the reason. */
const MAX_ERROR_LINES = 10;

export interface WorkerdEdge {
  readonly url: string;
  /** Process id of workerd, which runs only this Worker. */
  readonly pid: number;
  /** Returns workerd's output so far. */
  output(): string;
  stop(): Promise<void>;
}

export interface InspectedEdge extends WorkerdEdge {
  /** Address of V8's inspector. */
  readonly inspectorUrl: string;
}

type Variables = Readonly<Record<string, string>>;

/**
 * Starts the Worker without an aggregator of metrics.
 * @param variables variables that extend or override the upload's
 * @throws component_failed
 */
export async function startWorkerdEdge(
  upload: WorkerUpload,
  variables: Variables,
): Promise<WorkerdEdge> {
  return await startWorkerd({ upload, variables, sockets: await findFreePorts(1) });
}

export interface MetricsEdge extends WorkerdEdge {
  /** One address per isolate. `url` is the first. */
  readonly urls: readonly string[];
}

/**
 * Starts isolates of one process that report metrics to one aggregator, bound as `EDGETIER_METRICS`.
 * Otherwise as `startWorkerdEdge`.
 * @param options.folder storage of the aggregator
 */
export async function startMetricsEdge(
  upload: WorkerUpload,
  variables: Variables,
  { isolates = 1, folder }: { readonly isolates?: number; readonly folder: string },
): Promise<MetricsEdge> {
  const ports = await findFreePorts(isolates);
  return {
    ...(await startWorkerd({ upload, variables, sockets: ports, metricsFolder: folder })),
    urls: ports.map(urlOf),
  };
}

/** Starts the Worker with V8's inspector, for which the isolate keeps its logs. Otherwise as `startWorkerdEdge`. */
export async function startInspectedEdge(
  upload: WorkerUpload,
  variables: Variables,
): Promise<InspectedEdge> {
  // Concurrent searches return different ports.
  const [port, inspectorPort] = await Promise.all([findFreePort(), findFreePort()]);
  const address = `${LOOPBACK}:${inspectorPort}`;
  return {
    ...(await startWorkerd({
      upload,
      variables,
      sockets: [port],
      options: [`--inspector-addr=${address}`],
    })),
    inspectorUrl: `http://${address}`,
  };
}

/** Finds different ports, because the searches run concurrently. */
const findFreePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, findFreePort));
const urlOf = (port: number) => `http://${LOOPBACK}:${port}`;

interface WorkerdOptions {
  readonly upload: WorkerUpload;
  readonly variables: Variables;
  /** One port per isolate. */
  readonly sockets: readonly number[];
  /** Additional options of workerd's command line. */
  readonly options?: readonly string[];
  /** Storage of the metrics aggregator. Undefined: no aggregator. */
  readonly metricsFolder?: string;
}

async function startWorkerd(setup: WorkerdOptions): Promise<WorkerdEdge> {
  const binary: string = createRequire(import.meta.url)("workerd").default;
  const folder = await mkdtemp(join(tmpdir(), "edgetier-workerd-"));
  const removeFolder = () => rm(folder, { recursive: true, force: true });
  const lines: string[] = [];
  let child: Child | undefined;
  try {
    const config = await compileConfig(binary, folder, setup);
    child = await startChild({
      name: "workerd edge",
      command: binary,
      args: ["serve", "--binary", ...(setup.options ?? []), config],
      onLine: (line) => lines.push(line),
    });
    if (child === undefined)
      throw processErrors.componentFailed("workerd edge", `${binary} does not exist`);
  } catch (error) {
    await removeFolder();
    throw error;
  }
  const { died, pid, stop: stopChild } = child;
  const stop = async () => {
    await stopChild();
    await removeFolder();
  };
  const [url = ""] = setup.sockets.map(urlOf);
  for (const deadline = Date.now() + READY_TIMEOUT_MS; !(await isLive(url));) {
    const ending = await Promise.race([died, sleep(50)]);
    if (ending === undefined && Date.now() < deadline) continue;
    await stop();
    throw processErrors.componentFailed(
      "workerd edge",
      `${ending ?? `no response within ${READY_TIMEOUT_MS / 1000} s`}\n${lines.slice(0, MAX_ERROR_LINES).join("\n")}`,
    );
  }
  return { url, pid, output: () => lines.join("\n"), stop };
}

async function isLive(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/v2/health/live`);
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

/** Writes the configuration in binary form, because workerd keeps several copies of every module of a text form (measured). */
async function compileConfig(
  binary: string,
  folder: string,
  setup: WorkerdOptions,
): Promise<string> {
  for (const [index, { bytes }] of setup.upload.modules.entries())
    await writeFile(join(folder, moduleFileName(index)), bytes);
  const [config, encoded] = [join(folder, "config.capnp"), join(folder, "config.bin")];
  await writeFile(config, renderWorkerdConfig(setup));
  const options = { encoding: "buffer", maxBuffer: Number.POSITIVE_INFINITY } as const;
  await writeFile(
    encoded,
    (await promisify(execFile)(binary, ["compile", "--config-only", config], options)).stdout,
  );
  return encoded;
}

const moduleFileName = (index: number) => `module-${index}`;
const MODULE_FIELDS: Readonly<Record<UploadModule["kind"], string>> = {
  script: "esModule",
  wasm: "wasm",
  data: "data",
};

/** Renders workerd's configuration (workerd.capnp). The first module is the main one. */
function renderWorkerdConfig({
  upload,
  variables: overrides,
  sockets,
  metricsFolder,
}: WorkerdOptions): string {
  const { modules, variables, compatibilityDate, compatibilityFlags } = upload;
  const text = (value: string) => JSON.stringify(value);
  const list = (items: readonly string[]) => `[ ${items.join(", ")} ]`;
  const metrics =
    metricsFolder === undefined
      ? []
      : [
          `(name = "EDGETIER_METRICS", durableObjectNamespace = (className = "MetricsAggregator", serviceName = "edge-0"))`,
        ];
  const bindings = [
    ...Object.entries({ ...variables, ...overrides }).map(
      ([name, value]) => `(name = ${text(name)}, text = ${text(value)})`,
    ),
    ...metrics,
  ];
  const services = sockets.map((_, index) => `(name = "edge-${index}", worker = .edge${index})`);
  const disk =
    metricsFolder === undefined
      ? []
      : [`(name = "metrics", disk = (path = ${text(metricsFolder)}, writable = true))`];
  const aggregator =
    metricsFolder === undefined
      ? ""
      : `, durableObjectNamespaces = [ (className = "MetricsAggregator", uniqueKey = "edgetier-metrics", enableSql = true) ], durableObjectStorage = (localDisk = "metrics")`;
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = ${list([...services, ...disk, `(name = "internet", network = (allow = ["public", "private", "local"]))`])},
  sockets = ${list(sockets.map((port, index) => `(name = "http-${index}", address = "${LOOPBACK}:${port}", http = (), service = "edge-${index}")`))}
);
${sockets
  .map(
    (_, index) => `const edge${index} :Workerd.Worker = (
  modules = .modules, compatibilityDate = ${text(compatibilityDate)}, compatibilityFlags = ${list(compatibilityFlags.map(text))},
  bindings = .bindings${index === 0 ? aggregator : ""}
);`,
  )
  .join("\n")}
const bindings :List(Workerd.Worker.Binding) = ${list(bindings)};
const modules :List(Workerd.Worker.Module) = ${list(modules.map(({ name, kind }, index) => `(name = ${text(name)}, ${MODULE_FIELDS[kind]} = embed ${text(moduleFileName(index))})`))};
`;
}
