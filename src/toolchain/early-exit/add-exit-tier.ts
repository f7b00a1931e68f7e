// Exit tier: adds the first stage of a cut graph to a model project as an edge tier, from which the region tier resumes.

import { LOGITS_OUTPUT } from "../../cascade/calibration.ts";
import { type ClassificationProject, modelProjectSchema } from "../../registry/manifest.ts";
import { publishingErrors } from "../../registry/publishing-errors.ts";
import { requireClassification, type ProjectTier } from "../evaluate/project-tier.ts";
import { detectPrecision } from "../import/static-checks.ts";
import { parseModel } from "../onnx/model-file.ts";
import type { EvaluatedCut } from "./create-exits.ts";
import { ACTIVATION } from "./stages.ts";

type TierTensor = ProjectTier["outputs"][number];

export interface ProjectWithExit {
  readonly project: ClassificationProject;
  /** Files to write, by their paths in the project. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/**
 * Adds the first stage to the project as its last edge tier, or replaces the tier with the same id. A stated risk is
 * removed, because it holds for other tiers.
 * @param tier the tier whose graph was cut
 * @throws invalid_project
 */
export function addExitTier(
  { risk: _former, ...project }: ClassificationProject,
  tier: ProjectTier,
  cut: EvaluatedCut,
  id: string,
): ProjectWithExit {
  const { graphs } = cut;
  const firstPath = `artifacts/${id}.onnx`;
  const secondPath = `artifacts/${tier.id}-from-${id}.onnx`;
  const activation: TierTensor = {
    name: ACTIVATION,
    datatype: activationDatatype(graphs.first),
    shape: [...cut.shape],
  };
  const furtherInputs = tier.inputs.filter(({ name }) => cut.besides.includes(name));
  const resumes = { tier: id, graph: secondPath, inputs: [activation, ...furtherInputs] };
  const otherTiers = project.tiers
    .filter((other) => other.id !== id)
    .map((other) => (other.id === tier.id ? { ...other, resumes } : other));
  const firstRegion = otherTiers.findIndex(({ place }) => place === "region");
  const exitTier = describeExitTier(tier, cut, id, { graph: firstPath, activation });
  const parsed = modelProjectSchema.safeParse({
    ...project,
    tiers: otherTiers.toSpliced(firstRegion, 0, exitTier as ProjectTier),
  });
  if (!parsed.success)
    throw publishingErrors.invalidProject(
      project.model,
      parsed.error.issues.map(({ message }) => message),
    );
  return {
    project: requireClassification(parsed.data),
    files: new Map([
      [firstPath, graphs.first],
      [secondPath, graphs.second],
    ]),
  };
}

function describeExitTier(
  tier: ProjectTier,
  { judgement, graphs, share }: EvaluatedCut,
  id: string,
  { graph, activation }: { readonly graph: string; readonly activation: TierTensor },
) {
  return {
    ...tier,
    id,
    place: "edge",
    precision: detectPrecision(parseModel(graphs.first)),
    graph,
    fp16Graph: undefined,
    serving: undefined,
    resumes: undefined,
    // The whole graph's p95 does not apply; `edgetier model calibrate` measures the first stage's.
    p95Ms: undefined,
    outputs: [...tier.outputs.filter(({ name }) => name === LOGITS_OUTPUT), activation],
    calibration: judgement.calibration,
    exit: { confidence: judgement.exit.confidence },
    figures: {
      accuracy: roundMetric(judgement.accuracy),
      exitShare: roundMetric(judgement.exit.coverage),
      lossPoints: roundMetric(judgement.exit.lossPoints),
      shareOfMacs: roundMetric(share),
      p50MsInWorkerd: roundMetric(judgement.p50Ms),
      resumedAgreement: roundMetric(judgement.resumed.agreement),
    },
  };
}

function activationDatatype(first: Uint8Array): "UINT8" | "INT8" {
  const info = parseModel(first).graph.output.find(({ name }) => name === ACTIVATION);
  return info?.type?.value.case === "tensorType" && info.type.value.value.elemType === 3
    ? "INT8"
    : "UINT8";
}

const roundMetric = (value: number): number => Number(value.toFixed(4));
