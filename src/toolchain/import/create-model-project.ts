// Builds the model project of an imported model: the content of model.json, and the files it
// references.

import { modelProjectSchema, type ModelProject } from "../../registry/manifest.ts";
import type { Model } from "../onnx/model-file.ts";
import { opsetsOf } from "../onnx/operators/signatures.ts";
import type { AdaptedModel } from "./adapt-to-task.ts";
import type { TrialRun } from "./trial-run.ts";

export interface ModelProjectParts {
  readonly adapted: AdaptedModel;
  readonly trial: TrialRun;
  readonly file: string;
  /** Digest of the file. */
  readonly sha256: string;
  readonly name: string;
  readonly deadlineMs: number;
  readonly model: Model;
  /** The graph to serve. */
  readonly graph: Uint8Array;
  readonly precision: "fp32" | "fp16" | "int8";
}

/** Defaults for photographs and page-length texts, until the author changes them. */
const IMAGE_LIMITS = { maxBytes: 4 * 1024 * 1024, maxPixels: 12_000_000 };
const TEXT_LIMITS = { maxBytes: 16_384 };
const IDENTITY_CALIBRATION = { temperature: 1 };
const MAX_DESCRIPTION_LENGTH = 200;

export function createModelProject(
  parts: ModelProjectParts,
  place: "edge" | "region",
): { project: ModelProject; files: ReadonlyMap<string, Uint8Array>; missing: readonly string[] } {
  const { adapted, trial, file, sha256, name, deadlineMs, model, graph, precision } = parts;
  const { task, labels, preprocessor, embeddingOutput } = adapted;
  const files = new Map([["artifacts/model.onnx", graph]]);
  if (labels !== undefined)
    files.set("artifacts/labels.json", new TextEncoder().encode(`${JSON.stringify(labels)}\n`));
  const tier = {
    id: `${place}-${precision}`,
    place,
    precision,
    graph: "artifacts/model.onnx",
    inputs: copySpecs(trial.inputs),
    outputs: copySpecs(trial.outputs),
  };
  const project = {
    schemaVersion: 1,
    model: name,
    task,
    description:
      model.graph.docString.trim().split("\n")[0]?.slice(0, MAX_DESCRIPTION_LENGTH) ?? "",
    deadlineMs,
    ...(labels === undefined ? {} : { labels: "artifacts/labels.json" }),
    provenance: buildProvenance(model, file, sha256),
  };
  if (task === "tensor" || preprocessor === undefined)
    return { project: modelProjectSchema.parse({ ...project, tiers: [tier] }), files, missing: [] };

  if (embeddingOutput !== undefined) {
    const dimensions = trial.sampleOutputs[0]?.[embeddingOutput.output]?.shape.at(-1);
    const tiers = [
      { ...tier, preprocessor: addPreprocessorFile(preprocessor, files), ...embeddingOutput },
    ];
    const missing = [
      `limits: texts have at most ${TEXT_LIMITS.maxBytes} bytes, and the deadline is ${deadlineMs} ms`,
      "a card: the model's purpose, training data and license",
    ];
    return {
      project: modelProjectSchema.parse({ ...project, input: TEXT_LIMITS, dimensions, tiers }),
      files,
      missing,
    };
  }
  const input = task === "image-classification" ? IMAGE_LIMITS : TEXT_LIMITS;
  const tiers = [
    {
      ...tier,
      preprocessor: addPreprocessorFile(preprocessor, files),
      calibration: IDENTITY_CALIBRATION,
      exit: null,
    },
  ];
  const missing = [
    "calibration: the temperature is 1, which leaves the logits unchanged, and no input is out of scope",
    `limits: inputs have at most ${input.maxBytes} bytes, and the deadline is ${deadlineMs} ms`,
    "a card: the model's purpose, training data and license",
  ];
  return { project: modelProjectSchema.parse({ ...project, input, tiers }), files, missing };
}

/**
 * Adds the preprocessor's artifact to the project's files.
 * @returns its configuration in model.json
 */
function addPreprocessorFile(
  preprocessor: NonNullable<AdaptedModel["preprocessor"]>,
  files: Map<string, Uint8Array>,
): object {
  if (!("artifact" in preprocessor)) return preprocessor;
  const path =
    preprocessor.kind === "wordpiece" ? "artifacts/tokenizer.json" : "artifacts/features.json";
  files.set(path, preprocessor.artifact);
  return { ...preprocessor, artifact: path };
}

const copySpecs = (specs: TrialRun["inputs"]) =>
  specs.map((spec) => ({ ...spec, shape: [...spec.shape] }));

/** Describes the file by its name and digest, never by its local path. */
function buildProvenance(model: Model, file: string, sha256: string): object {
  const producer = [model.producerName, model.producerVersion]
    .filter((part) => part !== "")
    .join(" ");
  return {
    source: { name: file, sha256 },
    ...(producer === "" ? {} : { producer }),
    operators: Object.fromEntries(
      [...opsetsOf(model)].map(([domain, version]) => [
        domain === "" ? "ai.onnx" : domain,
        version,
      ]),
    ),
  };
}
