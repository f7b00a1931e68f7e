// Dense layers as plain arrays: training updates them, and ONNX graphs are written from them.

/** Computes y = x W + b. A ReLU follows every layer but the last. */
export interface DenseLayer {
  readonly inputs: number;
  readonly outputs: number;
  /** [inputs, outputs], row-major. */
  readonly weights: Float32Array;
  readonly bias: Float32Array;
}

/**
 * Draws weights and biases uniformly within ±1/sqrt(inputs), like PyTorch's `Linear`.
 * @param widths input width, hidden widths and output width
 */
export function initDenseLayers(widths: readonly number[], random: () => number): DenseLayer[] {
  return widths.slice(1).map((outputs, position) => {
    const inputs = widths[position] ?? 0;
    const bound = 1 / Math.sqrt(Math.max(1, inputs));
    const draw = () => (2 * random() - 1) * bound;
    return {
      inputs,
      outputs,
      weights: Float32Array.from({ length: inputs * outputs }, draw),
      bias: Float32Array.from({ length: outputs }, draw),
    };
  });
}

/** @param rows [n, inputs of the first layer] @returns [n, outputs of the last layer] */
export function forwardLayers(layers: readonly DenseLayer[], rows: Float32Array): Float32Array {
  return layers.reduce((values, layer, position) => {
    const outputs = forwardLayer(layer, values);
    return position === layers.length - 1 ? outputs : outputs.map((value) => Math.max(0, value));
  }, rows);
}

function forwardLayer(
  { inputs, outputs, weights, bias }: DenseLayer,
  rows: Float32Array,
): Float32Array {
  const count = rows.length / inputs;
  const result = new Float32Array(count * outputs);
  for (let row = 0; row < count; row++) {
    const start = row * outputs;
    result.set(bias, start);
    for (let input = 0; input < inputs; input++) {
      const value = rows[row * inputs + input] ?? 0;
      if (value === 0) continue;
      const from = input * outputs;
      for (let output = 0; output < outputs; output++)
        result[start + output] =
          (result[start + output] ?? 0) + value * (weights[from + output] ?? 0);
    }
  }
  return result;
}
