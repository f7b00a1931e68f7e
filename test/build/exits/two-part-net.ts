// A small convolutional network with a residual block, and a transformer's shape of one, to cut in two.
import type { Model } from "../../../src/build/onnx/model-file.ts";
import { seededRandom } from "../../../src/build/seeded-random.ts";
import { floats, int64s, ints, model, node } from "../onnx/small-model.ts";

const random = (name: string, dims: readonly number[], seed: number) => {
  const next = seededRandom(seed);
  return floats(name, Array.from({ length: dims.reduce((product, size) => product * size, 1) }, () => next() - 0.5), dims);
};
const same = ints("pads", [1, 1, 1, 1]);

/** `x` FP32 [N, 3, 8, 8] to `logits` [N, 4]: it narrows behind `stem`, around the block's sum, and behind `last`. */
export const residualNet = (): Model =>
  model({
    inputs: ["x: float [N, 3, 8, 8]"],
    outputs: ["logits: float [N, 4]"],
    constants: [random("w0", [6, 3, 3, 3], 1), random("w1", [6, 6, 3, 3], 2), random("w2", [6, 6, 3, 3], 3), random("w3", [8, 6, 3, 3], 4), random("w4", [8, 4], 5)],
    nodes: [
      node("Conv x w0 -> c0", [same]),
      node("Relu c0 -> stem"),
      node("Conv stem w1 -> c1", [same]),
      node("Relu c1 -> r1"),
      node("Conv r1 w2 -> c2", [same]),
      node("Add c2 stem -> sum"),
      node("Relu sum -> block"),
      node("MaxPool block -> pool", [ints("kernel_shape", [2, 2]), ints("strides", [2, 2])]),
      node("Conv pool w3 -> c3", [same]),
      node("Relu c3 -> last"),
      node("GlobalAveragePool last -> mean"),
      node("Flatten mean -> flat"),
      node("MatMul flat w4 -> logits"),
    ],
  });

/** `ids` and `attention_mask` [N, T] to `logits` [N, 2]: two layers, both of which read the mask. */
export const maskedNet = (): Model =>
  model({
    inputs: ["ids: int64 [N, T]", "attention_mask: int64 [N, T]"],
    outputs: ["logits: float [N, 2]"],
    constants: [random("table", [10, 4], 1), random("w1", [4, 4], 2), random("w2", [4, 4], 3), random("w3", [4, 2], 4), int64s("two", [2]), int64s("one", [1])],
    nodes: [
      node("Cast attention_mask -> float_mask", [{ ...ints("to", []), name: "to", type: 2, i: 1n }]),
      node("Unsqueeze float_mask two -> mask"),
      node("Gather table ids -> embedded"),
      node("MatMul embedded w1 -> m1"),
      node("Mul m1 mask -> layer1"),
      node("MatMul layer1 w2 -> m2"),
      node("Mul m2 mask -> layer2"),
      node("ReduceMean layer2 one -> mean"),
      node("Squeeze mean one -> row"),
      node("MatMul row w3 -> logits"),
    ],
  });
