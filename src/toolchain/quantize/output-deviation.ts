// Measures how far a quantized graph's outputs deviate from those in FP32, on samples.

import { coreErrors } from "../../core/common-errors.ts";
import type { NamedTensors } from "../../core/tensor.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { argmax } from "../argmax.ts";
import type { InputSamples } from "./capture-activations.ts";

export interface OutputDeviation {
  readonly output: string;
  /**
   * Signal-to-quantization-noise ratio: 10 log10(Σ reference² / Σ difference²); null if there is no
   * difference.
   */
  readonly sqnrDb: number | null;
  readonly maxAbsolute: number;
  readonly meanAbsolute: number;
  /** Share of rows (of the last dimension) with the same argmax; null if rows have one element. */
  readonly argmaxAgreement: number | null;
}

class DeviationAccumulator {
  #values = 0;
  #signal = 0;
  #noise = 0;
  #absolute = 0;
  #largest = 0;
  #rows = 0;
  #agreeing = 0;

  add(expected: Float32Array, found: Float32Array, width: number): void {
    for (let index = 0; index < expected.length; index++) {
      const value = expected[index] ?? 0;
      const difference = Math.abs(value - (found[index] ?? Number.NaN));
      this.#signal += value ** 2;
      this.#noise += difference ** 2;
      this.#absolute += difference;
      if (!(difference <= this.#largest)) this.#largest = difference;
    }
    this.#values += expected.length;
    if (width < 2) return;
    for (let start = 0; start < expected.length; start += width) {
      this.#rows++;
      if (
        argmax(expected.subarray(start, start + width)) ===
        argmax(found.subarray(start, start + width))
      )
        this.#agreeing++;
    }
  }

  result(output: string): OutputDeviation {
    return {
      output,
      sqnrDb: this.#noise === 0 ? null : 10 * Math.log10(this.#signal / this.#noise),
      maxAbsolute: this.#largest,
      meanAbsolute: this.#values === 0 ? 0 : this.#absolute / this.#values,
      argmaxAgreement: this.#rows === 0 ? null : this.#agreeing / this.#rows,
    };
  }
}

/**
 * Records one graph's outputs as the reference for other graphs. Holds the outputs in memory, and
 * iterates over the samples for each comparison.
 */
export class ReferenceOutputs {
  readonly #samples: InputSamples;
  readonly #outputs: readonly NamedTensors[];

  private constructor(samples: InputSamples, outputs: readonly NamedTensors[]) {
    this.#samples = samples;
    this.#outputs = outputs;
  }

  /** @throws session_failed */
  static async record(
    runtime: Runtime,
    graph: Uint8Array,
    samples: InputSamples,
  ): Promise<ReferenceOutputs> {
    const outputs: NamedTensors[] = [];
    await forEachOutput(runtime, graph, samples, (result) => outputs.push(result));
    return new ReferenceOutputs(samples, outputs);
  }

  /** @throws session_failed */
  async compare(runtime: Runtime, graph: Uint8Array): Promise<OutputDeviation[]> {
    const accumulators = new Map<string, DeviationAccumulator>();
    await forEachOutput(runtime, graph, this.#samples, (found, position) => {
      for (const [name, expected] of Object.entries(this.#outputs[position] ?? {})) {
        const other = found[name];
        if (expected.datatype !== "FP32") continue;
        if (other?.datatype !== "FP32" || other.data.length !== expected.data.length)
          throw coreErrors.sessionFailed(`output ${name} differs from FP32 in type or size`);
        const accumulator = accumulators.get(name) ?? new DeviationAccumulator();
        accumulators.set(name, accumulator);
        accumulator.add(expected.data, other.data, expected.shape.at(-1) ?? 1);
      }
    });
    return [...accumulators].map(([name, accumulator]) => accumulator.result(name));
  }
}

async function forEachOutput(
  runtime: Runtime,
  graph: Uint8Array,
  samples: InputSamples,
  onOutput: (outputs: NamedTensors, position: number) => void,
): Promise<void> {
  const session = await runtime.createSession(graph);
  try {
    let position = 0;
    for await (const inputs of samples) onOutput(await session.run(inputs), position++);
  } finally {
    await session.dispose();
  }
}
