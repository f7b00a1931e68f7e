// The folder that the Worker imports from: engine, glue, bundled snapshots, and the module and report that name them.

import { access, cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ImageCodecFiles } from "../../runtime/native/image-codecs.ts";
import type { EncodedSnapshot } from "../../runtime/wasm/snapshot-format.ts";
import { sha256HexSync } from "../sha256-sync.ts";
import { type EngineReport, engineReportSchema } from "./engine-report.ts";

export interface DeploymentFiles {
  readonly report: EngineReport;
  /** Undefined where the full engine is deployed. */
  readonly strippedWasm: Uint8Array | undefined;
  /** `graph` is its SHA-256. */
  readonly bundled: readonly { readonly graph: string; readonly snapshot: EncodedSnapshot }[];
  /** By SHA-256. */
  readonly artifacts: ReadonlyMap<string, Uint8Array>;
  /** Undefined where no edge tier takes images. */
  readonly imageDecoding:
    | { readonly codecs: ImageCodecFiles; readonly maxMemoryBytes: number }
    | undefined;
  readonly warmUpRuns: number;
  readonly sessionBudgetBytes: number;
  /** Of the full engine. */
  readonly engineFolder: string;
}

export async function readEngineReport(folder: string): Promise<EngineReport | undefined> {
  try {
    return engineReportSchema.parse(
      JSON.parse(await readFile(join(folder, "report.json"), "utf8")),
    );
  } catch {
    return undefined; // missing or damaged: it is made again
  }
}

/** Whether the engine and the module that names everything are there, as the report says. */
export async function isDeploymentComplete(
  folder: string,
  { engine }: EngineReport,
): Promise<boolean> {
  try {
    await access(join(folder, "deployment.mjs"));
    return sha256HexSync(await readFile(join(folder, "engine.wasm"))) === engine.sha256;
  } catch {
    return false;
  }
}

/** Writes a folder beside it first: a build that is broken off leaves the old deployment whole. */
export async function writeDeploymentFolder(folder: string, files: DeploymentFiles): Promise<void> {
  const {
    report,
    strippedWasm: cutWasm,
    bundled,
    artifacts,
    imageDecoding: images,
    engineFolder,
  } = files;
  const next = `${folder}.${process.pid}`;
  await rm(next, { recursive: true, force: true });
  await mkdir(next, { recursive: true });
  const full = join(engineFolder, "engine.wasm");
  await cp(join(engineFolder, "glue.mjs"), join(next, "glue.mjs"));
  if (cutWasm === undefined) await cp(full, join(next, "engine.wasm"));
  else await writeFile(join(next, "engine.wasm"), cutWasm);
  if (report.fallback) await cp(full, join(next, "full.wasm"));
  for (const { graph, snapshot } of bundled)
    await writeFile(join(next, snapshotFileName(graph)), snapshot.bytes);
  for (const [sha256, bytes] of artifacts)
    await writeFile(join(next, artifactFileName(sha256)), bytes);
  for (const [name, wasm] of Object.entries(images?.codecs ?? {}))
    await writeFile(join(next, codecFileName(name)), wasm);
  await writeFile(join(next, "deployment.mjs"), renderDeploymentModule(files));
  await writeFile(join(next, "report.json"), `${JSON.stringify(report, undefined, 1)}\n`);
  await rm(folder, { recursive: true, force: true });
  await rename(next, folder);
}

const snapshotFileName = (graph: string) => `snapshot-${graph.slice(0, 12)}.bin`;

const artifactFileName = (sha256: string) => `artifact-${sha256.slice(0, 12)}.bin`;

/** Of an image format. */
const codecFileName = (format: string) => `image-${format}.wasm`;

/** Exports a `Deployment` (runtime/wasm/deployment.ts). */
function renderDeploymentModule({
  report: { engine, fallback },
  bundled,
  artifacts,
  imageDecoding: images,
  warmUpRuns,
  sessionBudgetBytes,
}: DeploymentFiles): string {
  const formats = Object.keys(images?.codecs ?? {});
  const text = (value: unknown) => JSON.stringify(value);
  return `// Made by \`edgetier engine build\`: what the Worker bundles.
${[
  'import glue from "./glue.mjs";',
  'import wasm from "./engine.wasm";',
  ...(fallback ? ['import fullWasm from "./full.wasm";'] : []),
  ...bundled.map(
    ({ graph }, index) => `import snapshot${index} from ${text(`./${snapshotFileName(graph)}`)};`,
  ),
  ...formats.map((format) => `import ${format} from ${text(`./${codecFileName(format)}`)};`),
  ...[...artifacts.keys()].map(
    (sha256, index) => `import artifact${index} from ${text(`./${artifactFileName(sha256)}`)};`,
  ),
].join("\n")}

export default {
  engine: { kind: ${text(engine.kind)}, source: ${text(engine.source)}, ${engine.kind === "cut" ? `functions: ${text(engine.functions)}, ` : ""}wasm, glue },
  fallback: ${fallback ? `{ kind: "full", source: ${text(engine.source)}, wasm: fullWasm, glue }` : "undefined"},
  bundled: [${bundled.map(({ graph, snapshot }, index) => `\n    { graph: ${text(graph)}, head: ${text(snapshot.head)}, bytes: snapshot${index} },`).join("")}
  ],
  artifacts: new Map([${[...artifacts.keys()].map((sha256, index) => `[${text(sha256)}, artifact${index}]`).join(", ")}]),
  images: ${images === undefined ? "undefined" : `{ modules: { ${formats.join(", ")} }, maxMemoryBytes: ${images.maxMemoryBytes} }`},
  warmUpRuns: ${warmUpRuns},
  sessionBudgetBytes: ${sessionBudgetBytes},
};
`;
}
