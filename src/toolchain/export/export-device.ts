// A model project's edge tiers for an app: graphs in ONNX Runtime's format, and all that makes answers of their outputs.

import { toolchainErrors } from "../errors.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
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
import { isClassificationProject } from "../../registry/manifest.ts";
import type { PublishSource } from "../../registry/publish.ts";
import {
  measureLargestDifference,
  ONNX_RUNTIME_VERSION,
  convertToOrtFormat,
} from "./ort-format.ts";

/** Rounding may differ between fusions; what is more is another graph. */
const MAX_RELATIVE_DIFFERENCE = 0.01;

export interface DeviceExport {
  readonly manifest: DeviceManifest;
  /** By name, the manifest among them. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** Of each tier's logits, from those of the ONNX graph, as a share of the largest. */
  readonly differences: Readonly<Record<string, number>>;
}

/**
 * @param version of the published model that this project is; null where that is left to the alias
 * @throws not_exportable, session_failed
 */
export async function exportForDevice(
  { project, files }: PublishSource,
  version: number | null,
): Promise<DeviceExport> {
  if (!isClassificationProject(project))
    throw toolchainErrors.notExportable(
      project.model,
      `its task is ${project.task}, which has no exit to take on a device`,
      "Export a model that classifies.",
    );
  const tiers = project.tiers.filter(({ place }) => place === "edge");
  if (tiers.length === 0)
    throw toolchainErrors.notExportable(
      project.model,
      "it has no edge tier",
      "`edgetier model distil` makes a small tier from a large one.",
    );
  const written = new Map<string, Uint8Array>();
  const put = async (file: string, bytes: Uint8Array): Promise<ExportedFile> => {
    written.set(file, bytes);
    return { file, sha256: await sha256Hex(bytes), bytes: bytes.byteLength };
  };
  const read = (path: string): Uint8Array => {
    const bytes = files.get(path);
    if (bytes === undefined)
      throw publishingErrors.invalidProject(project.model, [`the file ${path} is missing`]);
    return bytes;
  };

  const differences: Record<string, number> = {};
  const exported: DeviceTier[] = [];
  for (const { id, precision, graph, inputs, outputs, preprocessor, calibration, exit } of tiers) {
    const onnx = read(graph);
    const ort = await convertToOrtFormat(onnx);
    const difference = (differences[id] = await measureLargestDifference(onnx, ort, LOGITS_OUTPUT));
    if (!(difference <= MAX_RELATIVE_DIFFERENCE))
      throw toolchainErrors.notExportable(
        project.model,
        `in ONNX Runtime's format, tier ${id} answers otherwise (by ${(100 * difference).toFixed(1)} % of its largest logit)`,
        "Tell the maintainers of the graph's operators; `edgetier model profile` lists them.",
      );
    const prepared =
      preprocessor.kind === "image"
        ? preprocessor
        : {
            ...preprocessor,
            artifact: await put(
              `${id}-${basename(preprocessor.artifact)}`,
              read(preprocessor.artifact),
            ),
          };
    exported.push({
      id,
      precision,
      graph: await put(`${id}.ort`, ort),
      source: await sha256Hex(onnx),
      inputs,
      outputs,
      preprocessor: prepared,
      calibration,
      exit,
    });
  }

  const manifest = deviceManifestSchema.parse({
    schemaVersion: 1,
    target: "ort-mobile",
    model: project.model,
    version,
    task: project.task,
    description: project.description,
    input: project.input,
    labels: await put("labels.json", read(project.labels)),
    tiers: exported,
    risk: project.risk,
    onnxRuntime: ONNX_RUNTIME_VERSION,
  });
  written.set(
    DEVICE_MANIFEST_FILE,
    new TextEncoder().encode(`${JSON.stringify(manifest, null, 2)}\n`),
  );
  return { manifest, files: written, differences };
}
