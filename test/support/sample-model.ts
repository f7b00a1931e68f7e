// Sample model: a small model project and manifest, valid but never run. No imports from Node: suites in workerd use it too.
import type {
  ArtifactRef,
  TextClassificationManifest,
  TextClassificationProject,
} from "../../src/registry/manifest.ts";

const encoder = new TextEncoder();

/** @param seed samples with different seeds have different content */
export function sampleFiles(seed = ""): Map<string, Uint8Array> {
  return new Map([
    ["labels.json", encoder.encode('["yes","no"]')],
    ["artifacts/student.onnx", encoder.encode(`not really a graph ${seed}`)],
    ["artifacts/student.ngrams", encoder.encode("not really n-grams")],
  ]);
}

export const sampleProject: TextClassificationProject = {
  schemaVersion: 1,
  model: "sample",
  task: "text-classification",
  description: "for tests",
  labels: "labels.json",
  input: { maxBytes: 512 },
  deadlineMs: 500,
  tiers: [
    {
      id: "student",
      place: "edge",
      precision: "int8",
      graph: "artifacts/student.onnx",
      preprocessor: { kind: "hashed-ngrams", artifact: "artifacts/student.ngrams" },
      inputs: [{ name: "features", datatype: "FP32", shape: [-1, 16] }],
      outputs: [{ name: "logits", datatype: "FP32", shape: [-1, 2] }],
      calibration: { temperature: 1.5 },
      exit: null,
      figures: { accuracy: 0.9 },
    },
  ],
  figures: {},
  provenance: { dataset: "none" },
};

export function sampleManifest(
  version: number,
  artifact: ArtifactRef = { sha256: "ab".repeat(32), size: 3 },
): TextClassificationManifest {
  const { tiers, report: _report, ...fields } = sampleProject;
  return {
    ...fields,
    version,
    labels: artifact,
    tiers: tiers.map(
      ({ fp16Graph: _fp16Graph, resumes: _resumes, serving: _serving, ...tier }) => ({
        ...tier,
        graph: artifact,
        preprocessor: { kind: "hashed-ngrams", artifact },
      }),
    ),
  };
}
