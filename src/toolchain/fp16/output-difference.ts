// Accumulates the differences between an output of a graph and the same output in FP16, over
// several runs.

import { coreErrors } from "../../core/common-errors.ts";
import type { Tensor } from "../../core/tensor.ts";
import { argmax } from "../argmax.ts";
import { decodeFloat16 } from "./float16.ts";

export interface OutputDifference {
  readonly output: string;
  readonly values: number;
  readonly maxAbsolute: number;
  readonly meanAbsolute: number;
  /** Largest magnitude of the original output, as a reference for the differences. */
  readonly largest: number;
  /**
   * Number of infinite or NaN values that are finite in the original. They do not count as
   * differences.
   */
  readonly lost: number;
  /** Share of rows (of the last dimension) with the same argmax; null if rows have one element. */
  readonly argmaxAgreement: number | null;
}

export class DifferenceAccumulator {
  readonly #output: string;
  #values = 0;
  #finite = 0;
  #maxAbsolute = 0;
  #sum = 0;
  #largest = 0;
  #lost = 0;
  #rows = 0;
  #agreeing = 0;

  constructor(output: string) {
    this.#output = output;
  }

  add(before: Tensor | undefined, after: Tensor | undefined): void {
    const [expected, found] = [readNumbers(before), readNumbers(after)];
    if (expected.length !== found.length)
      throw coreErrors.sessionFailed(
        `output ${this.#output} has ${found.length} values in FP16, but ${expected.length} in FP32`,
      );
    expected.forEach((value, index) => this.#addOne(value, found[index] ?? Number.NaN));
    const width = before?.shape.at(-1) ?? 1;
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

  #addOne(expected: number, found: number): void {
    this.#values++;
    if (!Number.isFinite(expected)) return;
    this.#largest = Math.max(this.#largest, Math.abs(expected));
    if (!Number.isFinite(found)) {
      this.#lost++;
      return;
    }
    const difference = Math.abs(expected - found);
    this.#finite++;
    this.#sum += difference;
    this.#maxAbsolute = Math.max(this.#maxAbsolute, difference);
  }

  result(): OutputDifference {
    return {
      output: this.#output,
      values: this.#values,
      maxAbsolute: this.#maxAbsolute,
      meanAbsolute: this.#finite === 0 ? 0 : this.#sum / this.#finite,
      largest: this.#largest,
      lost: this.#lost,
      argmaxAgreement: this.#rows === 0 ? null : this.#agreeing / this.#rows,
    };
  }
}

function readNumbers(tensor: Tensor | undefined): Float64Array {
  if (tensor === undefined || tensor.datatype === "BYTES") return new Float64Array();
  return Float64Array.from(
    tensor.datatype === "FP16" ? decodeFloat16(tensor.data) : tensor.data,
    Number,
  );
}
