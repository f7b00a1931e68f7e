// Builds small random convolutional networks whose channels have widely different weights.
import fc from "fast-check";
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import type { NodeProto, TensorProto } from "../../../src/toolchain/onnx/proto/onnx_pb.js";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { floatTensor, intListAttribute, model, node } from "../onnx/model-builders.ts";

type Block = "conv" | "depthwise" | "grouped" | "relu" | "relu6" | "pool" | "residual";

export interface NetworkSpec {
  readonly blocks: readonly Block[];
  readonly bias: boolean;
  readonly seed: number;
}

export const arbitraryNetwork: fc.Arbitrary<NetworkSpec> = fc.record({
  blocks: fc.array(
    fc.constantFrom<Block>("conv", "depthwise", "grouped", "relu", "relu6", "pool", "residual"),
    { minLength: 2, maxLength: 10 },
  ),
  bias: fc.boolean(),
  seed: fc.nat({ max: 10_000 }),
});

const CHANNELS = 4;

/** Builds a network with the input `x` [1, 4, 8, 8] and the output `y` [1, 3]. */
export function buildNetwork({ blocks, bias, seed }: NetworkSpec): Model {
  const next = seededRandom(seed);
  const constants: TensorProto[] = [floatTensor("zero", [0], []), floatTensor("six", [6], [])];
  const nodes: NodeProto[] = [];
  /** Adds weights whose channels differ by a factor of up to 100. */
  const weights = (name: string, dims: readonly number[]) => {
    const [channels = 1, ...rest] = dims;
    const channelSize = rest.reduce((product, size) => product * size, 1);
    const values = Array.from({ length: channels }, () => 10 ** (2 * next() - 1)).flatMap((size) =>
      Array.from({ length: channelSize }, () => (size * (2 * next() - 1)) / Math.sqrt(channelSize)),
    );
    constants.push(floatTensor(name, values, dims));
    return name;
  };
  let x = "x";
  blocks.forEach((block, index) => {
    const y = `v${index}`;
    const groups = block === "depthwise" ? CHANNELS : block === "grouped" ? 2 : 1;
    const added = bias ? ` ${weights(`b${index}`, [CHANNELS])}` : "";
    const conv = () =>
      node(
        `Conv ${x} ${weights(`w${index}`, [CHANNELS, CHANNELS / groups, 3, 3])}${added} -> ${y}`,
        [intListAttribute("pads", [1, 1, 1, 1]), makeIntAttribute("group", groups)],
      );
    if (block === "relu") nodes.push(node(`Relu ${x} -> ${y}`));
    else if (block === "relu6") nodes.push(node(`Clip ${x} zero six -> ${y}`));
    else if (block === "pool")
      nodes.push(
        node(`AveragePool ${x} -> ${y}`, [
          intListAttribute("kernel_shape", [3, 3]),
          intListAttribute("pads", [1, 1, 1, 1]),
        ]),
      );
    else if (block === "residual") nodes.push(node(`Add ${x} ${x} -> ${y}`));
    else nodes.push(conv());
    x = y;
  });
  nodes.push(
    node(`GlobalAveragePool ${x} -> g`),
    node("Flatten g -> f"),
    node(`Gemm f ${weights("wy", [CHANNELS, 3])} ${weights("by", [3])} -> y`),
  );
  return model({
    inputs: ["x: float [1, 4, 8, 8]"],
    outputs: ["y: float [1, 3]"],
    constants,
    nodes,
  });
}
