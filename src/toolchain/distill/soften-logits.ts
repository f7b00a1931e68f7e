// Turns a teacher's logits into soft targets (Hinton, Vinyals and Dean 2015, "Distilling the
// Knowledge in a Neural Network").

/**
 * Applies softmax with the temperature to each row, in place.
 * @param logits [n, outputs]
 * @returns `logits`
 */
export function softenLogits(
  logits: Float32Array,
  outputs: number,
  temperature: number,
): Float32Array {
  for (let start = 0; start < logits.length; start += outputs) {
    let largest = Number.NEGATIVE_INFINITY;
    for (let index = start; index < start + outputs; index++)
      largest = Math.max(largest, logits[index] ?? 0);
    let sum = 0;
    for (let index = start; index < start + outputs; index++) {
      const power = Math.exp(((logits[index] ?? 0) - largest) / temperature);
      logits[index] = power;
      sum += power;
    }
    for (let index = start; index < start + outputs; index++)
      logits[index] = (logits[index] ?? 0) / sum;
  }
  return logits;
}
