// A Worker, as it would be uploaded, in workerd alone: without the development server, whose proxy in front of the Worker
// costs more than the Worker does, and whose memory could not be told from the Worker's.

import { processErrors } from "../../core/process-errors.ts";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { type Child, startChild } from "./child.ts";
import { LOOPBACK } from "./defaults.ts";
import { findFreePort } from "./ports.ts";
import type { WorkerUpload, UploadModule } from "./upload.ts";

const READY_TIMEOUT_MS = 30_000;
/** Of its output, in an error: the first ones say why. */
const MAX_ERROR_LINES = 10;

export interface WorkerdEdge {
  readonly url: string;
  /** Of workerd, which runs nothing else. */
  readonly pid: number;
  /** What workerd has printed so far. */
  output(): string;
  stop(): Promise<void>;
}

export interface InspectedEdge extends WorkerdEdge {
  /** Where V8's inspector listens. */
  readonly inspectorUrl: string;
}

type Variables = Readonly<Record<string, string>>;

/** @param variables beside, or in place of, those of the upload; without an aggregator of metrics @throws component_failed */
export async function startWorkerdEdge(
  upload: WorkerUpload,
  variables: Variables,
): Promise<WorkerdEdge> {
  return await startWorkerd({ upload, variables, sockets: await findFreePorts(1) });
}

export interface MetricsEdge extends WorkerdEdge {
  /** One for each isolate. `url` is the first of them. */
  readonly urls: readonly string[];
}

/**
 * Isolates of one process that report what they count to one aggregator, as `EDGETIER_METRICS`. As `startBareEdge` else.
 * @param folder keeps what the aggregator stores
 */
export async function startMetricsEdge(
  upload: WorkerUpload,
  variables: Variables,
  { isolates = 1, folder }: { readonly isolates?: number; readonly folder: string },
): Promise<MetricsEdge> {
  const all = await findFreePorts(isolates);
  return {
    ...(await startWorkerd({ upload, variables, sockets: all, metricsFolder: folder })),
    urls: all.map(urlOf),
  };
}

/** With V8's inspector, for which the isolate keeps what it logs. As `startBareEdge` else. */
export async function startInspectedEdge(
  upload: WorkerUpload,
  variables: Variables,
): Promise<InspectedEdge> {
  const [port, inspectorPort] = await Promise.all([findFreePort(), findFreePort()]); // at once, so that they differ
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

/** At once, so that they differ. */
const findFreePorts = (count: number): Promise<number[]> =>
  Promise.all(Array.from({ length: count }, findFreePort));
const urlOf = (port: number) => `http://${LOOPBACK}:${port}`;

interface WorkerdOptions {
  readonly upload: WorkerUpload;
  readonly variables: Variables;
  /** One for each isolate. */
  readonly sockets: readonly number[];
  /** Of workerd's command line. */
  readonly options?: readonly string[];
  /** Of the aggregator, if there is to be one. */
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
      name: "bare edge",
      command: binary,
      args: ["serve", "--binary", ...(setup.options ?? []), config],
      onLine: (line) => lines.push(line),
    });
    if (child === undefined)
      throw processErrors.componentFailed("bare edge", `${binary} is not there`);
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
  for (const giveUpAt = Date.now() + READY_TIMEOUT_MS; !(await isLive(url));) {
    const how = await Promise.race([died, sleep(50)]);
    if (how === undefined && Date.now() < giveUpAt) continue;
    await stop();
    throw processErrors.componentFailed(
      "bare edge",
      `${how ?? `it did not answer within ${READY_TIMEOUT_MS / 1000} s`}\n${lines.slice(0, MAX_ERROR_LINES).join("\n")}`,
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

/** Writes the configuration in binary form: of a textual one, workerd keeps several copies of every module (measured). */
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

/** workerd's own configuration format (workerd.capnp). The first module is the main one. */
function renderWorkerdConfig({
  upload,
  variables: more,
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
    ...Object.entries({ ...variables, ...more }).map(
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
