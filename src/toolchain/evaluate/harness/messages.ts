// Messages between the toolchain and the harness in workerd, in the sandbox's frames (engine/sandbox/messages.ts).

import type { CalibrationParameters } from "../../../cascade/calibration.ts";
import type { TensorSpec } from "../../../core/tensor.ts";
import type { PackedTensors } from "../../engine/sandbox/messages.ts";

/** Opens a graph, the first byte string, and keeps its session open. Returns an `OpenedSession`. */
interface OpenJob {
  readonly kind: "open";
}

/** Runs a session once. Returns the outputs as `PackedTensors`. */
interface RunJob {
  readonly kind: "run";
  readonly sessionId: number;
  readonly inputs: PackedTensors;
}

/** Runs a session `runs` times serially. The caller measures the time, because a Worker's clock stops while it computes. */
interface RepeatJob {
  readonly kind: "repeat";
  readonly sessionId: number;
  readonly inputs: PackedTensors;
  readonly runs: number;
}

/** Encodes the input, the last byte string, `runs` times. If the preprocessor has a file, it is the first byte string. */
interface PreprocessJob {
  readonly kind: "preprocess";
  readonly task: string;
  readonly preprocessor: Readonly<Record<string, unknown>>;
  readonly hasArtifact: boolean;
  readonly limits: object;
  readonly runs: number;
}

/** Decodes the outputs of one row `runs` times. */
interface PostprocessJob {
  readonly kind: "postprocess";
  readonly outputs: PackedTensors;
  readonly labels: readonly string[];
  readonly calibration: CalibrationParameters;
  readonly runs: number;
}

interface CloseJob {
  readonly kind: "close";
  readonly sessionId: number;
}

export type HarnessJob = OpenJob | RunJob | RepeatJob | PreprocessJob | PostprocessJob | CloseJob;

export interface OpenedSession {
  readonly sessionId: number;
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
}

export interface RepeatResult {
  /** Memory of the session's engine after the runs. */
  readonly memoryBytes: number;
}
