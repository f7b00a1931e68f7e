// Adam: Kingma and Ba 2015, "Adam: A Method for Stochastic Optimization"; with weight decay apart from the gradient, as in
// Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".

const [BETA1, BETA2, EPSILON] = [0.9, 0.999, 1e-8];

/** Moves one tensor of weights, in place. */
export class Adam {
  readonly #weights: Float32Array;
  readonly #decay: number;
  readonly #means: Float32Array;
  readonly #squares: Float32Array;
  #steps = 0;

  constructor(weights: Float32Array, decay = 0) {
    this.#weights = weights;
    this.#decay = decay;
    this.#means = new Float32Array(weights.length);
    this.#squares = new Float32Array(weights.length);
  }

  step(gradient: Float32Array, rate: number): void {
    this.#steps++;
    const [weights, means, squares] = [this.#weights, this.#means, this.#squares];
    const size = rate / (1 - BETA1 ** this.#steps);
    const correction = 1 / Math.sqrt(1 - BETA2 ** this.#steps);
    const kept = 1 - rate * this.#decay;
    for (let index = 0; index < weights.length; index++) {
      const slope = gradient[index] ?? 0;
      const mean = BETA1 * (means[index] ?? 0) + (1 - BETA1) * slope;
      const square = BETA2 * (squares[index] ?? 0) + (1 - BETA2) * slope * slope;
      means[index] = mean;
      squares[index] = square;
      weights[index] =
        kept * (weights[index] ?? 0) - (size * mean) / (Math.sqrt(square) * correction + EPSILON);
    }
  }
}
