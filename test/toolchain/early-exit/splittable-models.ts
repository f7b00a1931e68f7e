// Test models for cutting: with a residual block, with a transformer's mask, and with two views of an image.
import type { Model } from "../../../src/toolchain/onnx/model-file.ts";
import { makeIntAttribute } from "../../../src/toolchain/onnx/nodes.ts";
import { seededRandom } from "../../../src/toolchain/seeded-random.ts";
import { floatTensor, int64Tensor, intListAttribute, model, node } from "../onnx/model-builders.ts";

const random = (name: string, dims: readonly number[], seed: number) => {
  const draw = seededRandom(seed);
  return floatTensor(
    name,
    Array.from({ length: dims.reduce((product, size) => product * size, 1) }, () => draw() - 0.5),
    dims,
  );
};
const same = intListAttribute("pads", [1, 1, 1, 1]);

/** From `x` FP32 [N, 3, 8, 8] to `logits` [N, 4]. It can be cut after `stem`, around the block's sum, and after `last`. */
export const residualModel = (): Model =>
  model({
    inputs: ["x: float [N, 3, 8, 8]"],
    outputs: ["logits: float [N, 4]"],
    constants: [
      random("w0", [6, 3, 3, 3], 1),
      random("w1", [6, 6, 3, 3], 2),
      random("w2", [6, 6, 3, 3], 3),
      random("w3", [8, 6, 3, 3], 4),
      random("w4", [8, 4], 5),
    ],
    nodes: [
      node("Conv x w0 -> c0", [same]),
      node("Relu c0 -> stem"),
      node("Conv stem w1 -> c1", [same]),
      node("Relu c1 -> r1"),
      node("Conv r1 w2 -> c2", [same]),
      node("Add c2 stem -> sum"),
      node("Relu sum -> block"),
      node("MaxPool block -> pool", [
        intListAttribute("kernel_shape", [2, 2]),
        intListAttribute("strides", [2, 2]),
      ]),
      node("Conv pool w3 -> c3", [same]),
      node("Relu c3 -> last"),
      node("GlobalAveragePool last -> mean"),
      node("Flatten mean -> flat"),
      node("MatMul flat w4 -> logits"),
    ],
  });

/** From `ids` and `attention_mask` [N, T] to `logits` [N, 2], with two layers that both read the mask. */
export const maskedModel = (): Model =>
  model({
    inputs: ["ids: int64 [N, T]", "attention_mask: int64 [N, T]"],
    outputs: ["logits: float [N, 2]"],
    constants: [
      random("table", [10, 4], 1),
      random("w1", [4, 4], 2),
      random("w2", [4, 4], 3),
      random("w3", [4, 2], 4),
      int64Tensor("two", [2]),
      int64Tensor("one", [1]),
    ],
    nodes: [
      node("Cast attention_mask -> float_mask", [makeIntAttribute("to", 1)]),
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

/**
 * From `x` FP32 [N, 3, 8, 8] to `logits` [N, 4], the mean of the logits of the image and its mirror image.
 * @param views `adjacent` has both views of an image next to each other; `blocked` has all images before all mirror images
 * @param isQuantized whether the graph quantizes `stem` to 8 bits and reads it dequantized, as `eighth`
 */
export function mirroredViewsModel(views: "adjacent" | "blocked", isQuantized = false): Model {
  const isAdjacent = views === "adjacent";
  const zero = { ...floatTensor("zero", [0], []), dataType: 2, rawData: Uint8Array.of(3) };
  return model({
    inputs: ["x: float [N, 3, 8, 8]"],
    outputs: ["logits: float [N, 4]"],
    constants: [
      random("w0", [6, 3, 3, 3], 1),
      random("w1", [8, 6, 3, 3], 2),
      random("w2", [8, 4], 3),
      floatTensor("scale", [0.02], []),
      zero,
      int64Tensor("start", [-1]),
      int64Tensor("end", [-100]),
      int64Tensor("columns", [3]),
      int64Tensor("step", [-1]),
      int64Tensor("one", [1]),
      int64Tensor("first", [0]),
      int64Tensor("images", [-1, 3, 8, 8]),
      int64Tensor("answers", isAdjacent ? [-1, 2, 4] : [2, -1, 4]),
    ],
    nodes: [
      node("Slice x start end columns step -> flipped"),
      ...(isAdjacent
        ? [
            node("Unsqueeze x one -> straight"),
            node("Unsqueeze flipped one -> mirrored"),
            node("Concat straight mirrored -> both", [makeIntAttribute("axis", 1)]),
            node("Reshape both images -> views"),
          ]
        : [node("Concat x flipped -> views", [makeIntAttribute("axis", 0)])]),
      node("Conv views w0 -> c0", [same]),
      node("Relu c0 -> stem"),
      ...(isQuantized
        ? [
            node("QuantizeLinear stem scale zero -> q"),
            node("DequantizeLinear q scale zero -> eighth"),
          ]
        : [node("Identity stem -> eighth")]),
      node("Conv eighth w1 -> c1", [same]),
      node("Relu c1 -> last"),
      node("GlobalAveragePool last -> mean"),
      node("Flatten mean -> flat"),
      node("MatMul flat w2 -> rows"),
      node("Reshape rows answers -> apart"),
      node(`ReduceMean apart ${isAdjacent ? "one" : "first"} -> averaged`),
      node(`Squeeze averaged ${isAdjacent ? "one" : "first"} -> logits`),
    ],
  });
}

/** From `ids` [N, T] to `logits` [N, 2]. Its layer computes on the concatenated tokens of all rows. */
export const flatModel = (): Model =>
  model({
    inputs: ["ids: int64 [N, T]"],
    outputs: ["logits: float [N, 2]"],
    constants: [
      random("table", [10, 4], 1),
      random("w1", [4, 4], 2),
      random("w2", [4, 2], 3),
      int64Tensor("tokens", [-1, 4]),
      int64Tensor("one", [1]),
    ],
    nodes: [
      node("Gather table ids -> embedded"),
      node("Reshape embedded tokens -> flat"),
      node("MatMul flat w1 -> layer"),
      node("Shape embedded -> shape"),
      node("Reshape layer shape -> apart"),
      node("ReduceMean apart one -> mean"),
      node("Squeeze mean one -> row"),
      node("MatMul row w2 -> logits"),
    ],
  });
