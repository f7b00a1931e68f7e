// What the toolchain and the harness in workerd send each other, in the sandbox's frames (engine/sandbox/messages.ts).

import type { CalibrationParameters } from "../../../cascade/calibration.ts";
import type { TensorSpec } from "../../../core/tensor.ts";
import type { PackedTensors } from "../../engine/sandbox/messages.ts";

/** Opens a graph, the first byte string, and keeps it open. The answer is an `OpenedSession`. */
interface OpenJob {
  readonly kind: "open";
}

/** The answer is the outputs' `PackedTensors`. */
interface RunJob {
  readonly kind: "run";
  readonly sessionId: number;
  readonly inputs: PackedTensors;
}

/** Runs `runs` times, one after the other: a Worker has no clock that goes on meanwhile, so the caller takes the time. */
interface RepeatJob {
  readonly kind: "repeat";
  readonly sessionId: number;
  readonly inputs: PackedTensors;
  readonly runs: number;
}

/** Encodes the input, the last byte string, `runs` times, with a preprocessor whose file is the first where it has one. */
interface PreprocessJob {
  readonly kind: "preprocess";
  readonly task: string;
  readonly preprocessor: Readonly<Record<string, unknown>>;
  readonly hasArtifact: boolean;
  readonly limits: object;
  readonly runs: number;
}

/** Reads the answer off one row's outputs, `runs` times. */
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

/** After `repeat`: of the session's engine. */
export interface RepeatResult {
  readonly memoryBytes: number;
}
