// Warms a tier up before its model is ready: runs the configured list, or the task's example once.

import { EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { NamedTensors, TensorSpec } from "../../core/tensor.ts";
import type { ArtifactRef } from "../../registry/manifest.ts";
import type { WarmupSample } from "../../registry/serving-config.ts";
import type { Session } from "../../runtime/runtime.ts";
import { regionServerErrors } from "./errors.ts";
import { generateInputs, createWarmupTensor } from "./warmup-inputs.ts";

export interface WarmupRun {
  /** Name of the list entry, with its number of rows. */
  readonly name: string;
  readonly inputs: NamedTensors;
  readonly count: number;
}

export interface WarmupOptions {
  /** Tier id for messages. */
  readonly tier: string;
  /** Declarations of the graph's inputs. */
  readonly specs: readonly TensorSpec[];
  /** Creates the inputs of list entries that specify none. */
  readonly createExample: (rows: number) => NamedTensors;
  readonly readFile: (file: ArtifactRef) => Promise<Uint8Array>;
}

const DEFAULT_SAMPLES = [{ name: "default", batchRows: 1, count: 1 }] as const;

/** @returns at least one run @throws what `readFile` throws; warmup_failed if an input cannot be created */
export async function createWarmupRuns(
  list: readonly WarmupSample<ArtifactRef>[] | undefined,
  options: WarmupOptions,
): Promise<readonly [WarmupRun, ...WarmupRun[]]> {
  const samples: readonly WarmupSample<ArtifactRef>[] =
    list === undefined || list.length === 0 ? DEFAULT_SAMPLES : list;
  const runs: WarmupRun[] = [];
  for (const sample of samples) {
    const files = await readWarmupFiles(sample, options.readFile);
    for (const rows of [sample.batchRows].flat()) {
      const name = `${sample.name}, ${rows} row${rows === 1 ? "" : "s"}`;
      runs.push({
        name,
        inputs: withWarmupError(name, options.tier, () =>
          createWarmupInputs(sample, rows, files, options),
        ),
        count: sample.count,
      });
    }
  }
  const [first, ...others] = runs;
  if (first === undefined) throw new RangeError("a warm-up sample without batch sizes");
  return [first, ...others];
}

/** Reads the files of a list entry, keyed by input name. */
async function readWarmupFiles(
  { inputs = {} }: WarmupSample<ArtifactRef>,
  readFile: WarmupOptions["readFile"],
): Promise<ReadonlyMap<string, Uint8Array>> {
  const files = new Map<string, Uint8Array>();
  for (const [name, { data }] of Object.entries(inputs)) {
    if (typeof data === "object") files.set(name, await readFile(data.file));
  }
  return files;
}

function createWarmupInputs(
  { inputs }: WarmupSample<ArtifactRef>,
  rows: number,
  files: ReadonlyMap<string, Uint8Array>,
  { specs, createExample }: WarmupOptions,
): NamedTensors {
  if (inputs === undefined) return createExample(rows);
  const configured = Object.entries(inputs).map(
    ([name, input]) =>
      [
        name,
        createWarmupTensor(
          name,
          input,
          specs.find((spec) => spec.name === name),
          rows,
          files.get(name),
        ),
      ] as const,
  );
  return {
    ...generateInputs(
      specs.filter(({ name }) => !Object.hasOwn(inputs, name)),
      rows,
      "zero",
    ),
    ...Object.fromEntries(configured),
  };
}

/** @throws warmup_failed with the run's name */
export async function warmUp(
  session: Session,
  tier: string,
  runs: readonly WarmupRun[],
): Promise<void> {
  for (const { name, inputs, count } of runs) {
    try {
      for (let run = 0; run < count; run++) await session.run(inputs);
    } catch (error) {
      throw toWarmupError(name, tier, error);
    }
  }
}

function withWarmupError<Result>(name: string, tier: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw toWarmupError(name, tier, error);
  }
}

const toWarmupError = (name: string, tier: string, error: unknown) =>
  regionServerErrors.warmupFailed(
    name,
    tier,
    error instanceof EdgeTierError ? error.detail : reasonOf(error),
    error,
  );
