// Device export: writes a model project's edge tiers for an app. The export has graphs in ONNX Runtime's format and the
// files that turn their outputs into answers.

import { basename } from "node:path";
import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { sha256Hex } from "../../core/hash.ts";
import {
  DEVICE_MANIFEST_FILE,
  type DeviceManifest,
  deviceManifestSchema,
  type DeviceTier,
  type ExportedFile,
} from "../../registry/device-manifest.ts";
import {
  type ClassificationProject,
  isClassificationProject,
  type ModelProject,
} from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import { toolchainErrors } from "../errors.ts";
import { type ProjectTier, requireProjectFile } from "../evaluate/project-tier.ts";
import {
  measureLargestDifference,
  ONNX_RUNTIME_VERSION,
  convertToOrtFormat,
} from "./ort-format.ts";

/** Rounding may differ between fusions. A larger difference means that the conversion has changed the graph. */
const MAX_RELATIVE_DIFFERENCE = 0.01;

export interface DeviceExport {
  readonly manifest: DeviceManifest;
  /** Files by name, including the manifest. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Largest difference of each tier's logits from the ONNX graph's, as a share of the largest logit. */
  readonly differences: Readonly<Record<string, number>>;
}

/**
 * @param version published version of the project; null leaves it to the alias
 * @throws not_exportable, session_failed
 */
export async function exportForDevice(
  source: PublishSource,
  version: number | null,
): Promise<DeviceExport> {
  const project = requireExportableProject(source.project);
  const edgeTiers = project.tiers.filter(({ place }) => place === "edge");
  const files = new Map<string, Uint8Array>();
  const addFile: AddFile = async (file, bytes) => {
    files.set(file, bytes);
    return { file, sha256: await sha256Hex(bytes), bytes: bytes.byteLength };
  };

  const differences: Record<string, number> = {};
  const tiers: DeviceTier[] = [];
  for (const tier of edgeTiers) {
    const onnx = requireProjectFile(source, tier.graph);
    const ort = await convertToOrtFormat(onnx);
    const difference = await measureLargestDifference(onnx, ort, LOGITS_OUTPUT);
    differences[tier.id] = difference;
    if (!(difference <= MAX_RELATIVE_DIFFERENCE))
      throw toolchainErrors.notExportable(
        project.model,
        `in ONNX Runtime's format, the logits of tier ${tier.id} differ by ${(100 * difference).toFixed(1)} % of the largest`,
        "Run `edgetier model profile` to list the graph's operators, and report them to the maintainers.",
      );
    tiers.push(await exportTier(source, tier, { onnx, ort }, addFile));
  }

  const manifest = deviceManifestSchema.parse({
    schemaVersion: 1,
    target: "ort-mobile",
    model: project.model,
    version,
    task: project.task,
    description: project.description,
    input: project.input,
    labels: await addFile("labels.json", requireProjectFile(source, project.labels)),
    tiers,
    risk: project.risk,
    onnxRuntime: ONNX_RUNTIME_VERSION,
  });
  files.set(
    DEVICE_MANIFEST_FILE,
    new TextEncoder().encode(`${JSON.stringify(manifest, null, 2)}\n`),
  );
  return { manifest, files, differences };
}

type AddFile = (file: string, bytes: Uint8Array) => Promise<ExportedFile>;

function requireExportableProject(project: ModelProject): ClassificationProject {
  if (!isClassificationProject(project))
    throw toolchainErrors.notExportable(
      project.model,
      `its task is ${project.task}, which has no exit to take on a device`,
      "Export a classification model.",
    );
  if (project.tiers.every(({ place }) => place !== "edge"))
    throw toolchainErrors.notExportable(
      project.model,
      "it has no edge tier",
      "Run `edgetier model distill` to make a small tier from a large one.",
    );
  return project;
}

async function exportTier(
  source: PublishSource,
  { id, precision, inputs, outputs, preprocessor, calibration, exit }: ProjectTier,
  { onnx, ort }: { readonly onnx: Uint8Array; readonly ort: Uint8Array },
  addFile: AddFile,
): Promise<DeviceTier> {
  return {
    id,
    precision,
    graph: await addFile(`${id}.ort`, ort),
    source: await sha256Hex(onnx),
    inputs,
    outputs,
    preprocessor:
      preprocessor.kind === "image"
        ? preprocessor
        : {
            ...preprocessor,
            artifact: await addFile(
              `${id}-${basename(preprocessor.artifact)}`,
              requireProjectFile(source, preprocessor.artifact),
            ),
          },
    calibration,
    exit,
  };
}
