// Builds convolutional networks from a list of choices. In every layer, the channels 1, 4, 7 and so
// on are zero. This applies to weights, biases and normalizations, so that about half of the
// coupled channels are zero together.
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { floatTensor, int64Tensor, intListAttribute, model, node } from "../onnx/model-builders.ts";

const SIDE = 4;
const WIDTHS = [6, 12, 18];

/** A tensor [N, channels, SIDE, SIDE]. */
interface Feature {
  readonly name: string;
  readonly channels: number;
}

export type StepChoice = readonly [step: number, first: number, second: number];

class Net {
  readonly nodes: NodeProto[] = [];
  readonly constants: TensorProto[] = [];
  readonly #random = seededRandom(7);
  #count = 0;

  name(): string {
    return `v${++this.#count}`;
  }

  /** @param zeroAxis axis along which every third index is 0 */
  weights(dims: readonly number[], zeroAxis?: number): string {
    const name = `w${++this.#count}`;
    const inner = dims.slice((zeroAxis ?? 0) + 1).reduce((product, size) => product * size, 1);
    const size = dims.reduce((product, dim) => product * dim, 1);
    const scale = Math.sqrt(((dims[0] ?? 1) * 2) / size);
    const values = Array.from({ length: size }, (_, index) => {
      const value = (2 * this.#random() - 1) * scale;
      return zeroAxis !== undefined && (Math.floor(index / inner) % (dims[zeroAxis] ?? 1)) % 3 === 1
        ? 0
        : value;
    });
    this.constants.push(floatTensor(name, values, dims));
    return name;
  }

  sizes(values: readonly number[]): string {
    const name = `s${++this.#count}`;
    this.constants.push(int64Tensor(name, values));
    return name;
  }

  add(text: string, attributes: Parameters<typeof node>[1] = []): string {
    const name = this.name();
    this.nodes.push(node(`${text} -> ${name}`, attributes));
    return name;
  }

  conv(
    { name, channels }: Feature,
    outputs: number,
    { kernel = 3, group = 1, bias = true } = {},
  ): Feature {
    const weights = this.weights([outputs, channels / group, kernel, kernel], 0);
    const pad = (kernel - 1) / 2;
    const output = this.add(
      `Conv ${name} ${weights}${bias ? ` ${this.weights([outputs], 0)}` : ""}`,
      [intListAttribute("pads", [pad, pad, pad, pad]), makeIntAttribute("group", group)],
    );
    return { name: output, channels: outputs };
  }

  norm({ name, channels }: Feature): Feature {
    const variance = `w${++this.#count}`;
    this.constants.push(
      floatTensor(
        variance,
        Array.from({ length: channels }, (_, channel) => 0.5 + (channel % 5) / 5),
      ),
    );
    return {
      name: this.add(
        `BatchNormalization ${name} ${this.weights([channels], 0)} ${this.weights([channels], 0)} ${this.weights([channels], 0)} ${variance}`,
      ),
      channels,
    };
  }
}

type MakeStep = (net: Net, x: Feature, y: Feature, pick: number) => Feature;
const widthOf = (pick: number): number => WIDTHS[pick % WIDTHS.length] ?? 6;

/** Each step computes a new feature from one or two others. */
export const NET_STEPS: Readonly<Record<string, MakeStep>> = {
  conv: (net, x, _, pick) => net.conv(x, widthOf(pick), { kernel: pick % 2 === 0 ? 3 : 1 }),
  "conv, norm, relu": (net, x, _, pick) =>
    relu(net, net.norm(net.conv(x, widthOf(pick), { bias: false }))),
  "grouped conv": (net, x, _, pick) =>
    net.conv(x, widthOf(pick), { group: x.channels % 3 === 0 ? 3 : 1 }),
  "depthwise conv": (net, x) => net.conv(x, x.channels, { group: x.channels }),
  "depthwise conv with a multiplier": (net, x) =>
    net.conv(x, 2 * x.channels, { group: x.channels }),
  residual: (net, x) => ({
    name: net.add(`Add ${x.name} ${relu(net, net.conv(x, x.channels)).name}`),
    channels: x.channels,
  }),
  add: (net, x, y, pick) => {
    const width = widthOf(pick);
    return {
      name: net.add(`Add ${net.conv(x, width, { kernel: 1 }).name} ${net.conv(y, width).name}`),
      channels: width,
    };
  },
  concat: (net, x, y) => ({
    name: net.add(`Concat ${x.name} ${y.name}`, [makeIntAttribute("axis", 1)]),
    channels: x.channels + y.channels,
  }),
  gate: (net, x) => {
    const squeezed = relu(
      net,
      net.conv({ name: net.add(`GlobalAveragePool ${x.name}`), channels: x.channels }, 6, {
        kernel: 1,
      }),
    );
    return {
      name: net.add(
        `Mul ${x.name} ${net.add(`Sigmoid ${net.conv(squeezed, x.channels, { kernel: 1 }).name}`)}`,
      ),
      channels: x.channels,
    };
  },
  split: (net, x, _, pick) => {
    const first = pick % 2 === 0 ? Math.floor(x.channels / 2) : 3;
    const sizes = [first, x.channels - first];
    const [left, right] = [net.name(), net.name()];
    net.nodes.push(
      node(`Split ${x.name} ${net.sizes(sizes)} -> ${left} ${right}`, [
        makeIntAttribute("axis", 1),
      ]),
    );
    return {
      name: net.add(`Concat ${right} ${left} ${left}`, [makeIntAttribute("axis", 1)]),
      channels: x.channels + first,
    };
  },
  shuffle: (net, x) => {
    const groups = x.channels % 2 === 0 ? 2 : 1;
    const cut = net.add(
      `Reshape ${x.name} ${net.sizes([-1, groups, x.channels / groups, SIDE, SIDE])}`,
    );
    return {
      name: net.add(
        `Reshape ${net.add(`Transpose ${cut}`, [intListAttribute("perm", [0, 2, 1, 3, 4])])} ${net.sizes([-1, x.channels, SIDE, SIDE])}`,
      ),
      channels: x.channels,
    };
  },
  "channels last": (net, x) => {
    const last = net.add(`Transpose ${x.name}`, [intListAttribute("perm", [0, 2, 3, 1])]);
    const dense = net.add(
      `Relu ${net.add(`Add ${net.add(`MatMul ${last} ${net.weights([x.channels, 12], 1)}`)} ${net.weights([12], 0)}`)}`,
    );
    return {
      name: net.add(`Transpose ${dense}`, [intListAttribute("perm", [0, 3, 1, 2])]),
      channels: 12,
    };
  },
  "transposed conv": (net, x) => ({
    name: net.add(
      `ConvTranspose ${x.name} ${net.weights([x.channels, 6, 3, 3], 1)} ${net.weights([6], 0)}`,
      [intListAttribute("pads", [1, 1, 1, 1])],
    ),
    channels: 6,
  }),
  prelu: (net, x) => ({
    name: net.add(`PRelu ${x.name} ${net.weights([x.channels, 1, 1])}`),
    channels: x.channels,
  }),
  pool: (net, x) => ({
    name: net.add(`MaxPool ${x.name}`, [
      intListAttribute("kernel_shape", [3, 3]),
      intListAttribute("pads", [1, 1, 1, 1]),
    ]),
    channels: x.channels,
  }),
  pad: (net, x) => ({
    name: net.add(
      `AveragePool ${net.add(`Pad ${x.name} ${net.sizes([0, 0, 1, 1, 0, 0, 1, 1])}`)}`,
      [intListAttribute("kernel_shape", [3, 3])],
    ),
    channels: x.channels,
  }),
  "softmax over channels": (net, x) => ({
    name: net.add(`Softmax ${x.name}`, [makeIntAttribute("axis", 1)]),
    channels: x.channels,
  }),
};

function relu(net: Net, { name, channels }: Feature): Feature {
  return { name: net.add(`Relu ${name}`), channels };
}

/** Each flattening computes [N, units] from a feature. */
const FLATTENINGS: readonly ((net: Net, x: Feature) => readonly [name: string, units: number])[] = [
  (net, x) => [net.add(`Flatten ${x.name}`), x.channels * SIDE * SIDE],
  (net, x) => [net.add(`Flatten ${net.add(`GlobalAveragePool ${x.name}`)}`), x.channels],
  (net, x) => [
    net.add(`Reshape ${x.name} ${net.sizes([-1, x.channels * SIDE * SIDE])}`),
    x.channels * SIDE * SIDE,
  ],
  (net, x) => [
    net.add(`ReduceMean ${x.name} ${net.sizes([2, 3])}`, [makeIntAttribute("keepdims", 0)]),
    x.channels,
  ],
  (net, x) => {
    const batch = net.add(`Gather ${net.add(`Shape ${x.name}`)} ${net.sizes([0])}`);
    return [
      net.add(
        `Reshape ${x.name} ${net.add(`Concat ${batch} ${net.sizes([x.channels * SIDE * SIDE])}`, [makeIntAttribute("axis", 0)])}`,
      ),
      x.channels * SIDE * SIDE,
    ];
  },
];

export interface NetChoices {
  readonly steps: readonly StepChoice[];
  readonly flattening: number;
  /** Features that are graph outputs in addition to the logits. */
  readonly outputs: readonly number[];
}

export function createRandomNet({ steps, flattening, outputs }: NetChoices): Model {
  const net = new Net();
  const features: Feature[] = [net.conv({ name: "x", channels: 3 }, 12)];
  const makeSteps = Object.values(NET_STEPS);
  for (const [step, first, second] of steps) {
    const [x, y] = [
      features.at(-1 - (first % Math.min(2, features.length))),
      features[second % features.length],
    ];
    const feature = x && y && makeSteps[step % makeSteps.length]?.(net, x, y, first + second);
    if (feature !== undefined && feature.channels <= 48) features.push(feature);
  }
  const last = features.at(-1) ?? { name: "x", channels: 3 };
  const [flat, units] = FLATTENINGS[flattening % FLATTENINGS.length]?.(net, last) ?? ["", 0];
  const hidden = net.add(
    `Relu ${net.add(`Gemm ${flat} ${net.weights([16, units], 0)} ${net.weights([16], 0)}`, [makeIntAttribute("transB", 1)])}`,
  );
  net.nodes.push(node(`MatMul ${hidden} ${net.weights([16, 5])} -> logits`));
  const featureOutputs = [
    ...new Set(outputs.map((index) => features[index % features.length])),
  ].flatMap((feature) =>
    feature === undefined
      ? []
      : [`${feature.name}: float [N, ${feature.channels}, ${SIDE}, ${SIDE}]`],
  );
  return model({
    opset: 18,
    inputs: [`x: float [N, 3, ${SIDE}, ${SIDE}]`],
    outputs: ["logits: float [N, 5]", ...featureOutputs],
    nodes: net.nodes,
    constants: net.constants,
  });
}
