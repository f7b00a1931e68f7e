// Optimizer: Adam with decoupled weight decay. Sources: Kingma and Ba 2015, "Adam: A Method for
// Stochastic Optimization"; Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization".

const [BETA1, BETA2, EPSILON] = [0.9, 0.999, 1e-8];

/** Updates one weight tensor in place. */
export class Adam {
  readonly #weights: Float32Array;
  readonly #weightDecay: number;
  readonly #means: Float32Array;
  readonly #squares: Float32Array;
  #steps = 0;

  constructor(weights: Float32Array, weightDecay = 0) {
    this.#weights = weights;
    this.#weightDecay = weightDecay;
    this.#means = new Float32Array(weights.length);
    this.#squares = new Float32Array(weights.length);
  }

  step(gradient: Float32Array, learningRate: number): void {
    this.#steps++;
    const [weights, means, squares] = [this.#weights, this.#means, this.#squares];
    const stepSize = learningRate / (1 - BETA1 ** this.#steps);
    const correction = 1 / Math.sqrt(1 - BETA2 ** this.#steps);
    const decayFactor = 1 - learningRate * this.#weightDecay;
    for (let index = 0; index < weights.length; index++) {
      const partial = gradient[index] ?? 0;
      const mean = BETA1 * (means[index] ?? 0) + (1 - BETA1) * partial;
      const square = BETA2 * (squares[index] ?? 0) + (1 - BETA2) * partial * partial;
      means[index] = mean;
      squares[index] = square;
      weights[index] =
        decayFactor * (weights[index] ?? 0) -
        (stepSize * mean) / (Math.sqrt(square) * correction + EPSILON);
    }
  }
}
