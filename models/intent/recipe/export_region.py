"""Writes the fine-tuned encoder as a quantised ONNX graph.

    python export_region.py --data <clinc150> --work <work> --encoder student.pt --out <artifacts>

Inputs input_ids and attention_mask, INT64 [batch, tokens]; output logits, FP32 [batch, 150].
"""

import argparse
import math
import shutil
from pathlib import Path

import numpy as np
import torch
from onnx import TensorProto

import corpus
from activation_ranges import observe
from encoder import EPSILON, HEADS, HIDDEN, Encoder, load
from onnx_graph import ActivationRange, Graph, dequantised_rows, quantised_linear

HEAD_SIZE = HIDDEN // HEADS


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().numpy()


class RegionGraph:
    def __init__(self, model: Encoder, ranges: dict[str, ActivationRange]) -> None:
        self.model, self.ranges, self.graph = model, ranges, Graph()

    def integers(self, *values: int) -> str:
        return self.graph.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.graph.constant(np.array(value, np.float32))

    def norm(self, x: str, module: torch.nn.LayerNorm, name: str) -> str:
        weight = self.graph.constant(array(module.weight), f"{name}.weight")
        bias = self.graph.constant(array(module.bias), f"{name}.bias")
        return self.graph.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=EPSILON)

    def linear(self, x: str, module: torch.nn.Linear, name: str, factor: np.ndarray | float = 1.0) -> str:
        """`factor` multiplies output channels."""
        return quantised_linear(
            self.graph, x, array(module.weight).T * factor, array(module.bias) * factor, self.ranges[name], name
        )

    def words(self) -> str:
        """Rows of the 4-bit table without its low end: two codes a byte, columns [0, 192) in the low halves."""
        g, table = self.graph, self.model.words
        codes = array(table.codes(table.weight)).astype(np.uint8)
        packed = g.constant(codes[:, : HIDDEN // 2] | codes[:, HIDDEN // 2 :] << 4, "words.table")
        rows = g.add("Gather", packed, "input_ids", axis=0)
        low = g.add("BitwiseAnd", rows, g.constant(np.array(15, np.uint8)))
        high = g.add("BitShift", rows, g.constant(np.array(4, np.uint8)), direction="RIGHT")
        zero = g.constant(np.zeros(HIDDEN, np.uint8), "words.zero_point")
        return g.add("DequantizeLinear", g.add("Concat", low, high, axis=-1), g.constant(array(table.step), "words.step"), zero, axis=2)

    def embedded(self) -> str:
        g = self.graph
        length = g.add("Shape", "input_ids", start=1, end=2)
        table = array(self.model.positions) + array(self.model.words.low)
        positions = dequantised_rows(g, table, ("Slice", self.integers(0), length), 2, "positions")
        return self.norm(g.add("Add", self.words(), positions), self.model.norm, "norm")

    def layer(self, x: str, bias: str, number: int) -> str:
        g, module, name = self.graph, self.model.layers[number], f"layers.{number}"
        scaling = np.ones(3 * HIDDEN, np.float32)
        scaling[:HIDDEN] = 1 / math.sqrt(HEAD_SIZE)  # queries carry the attention's scale
        parts = g.add(
            "Split", self.linear(x, module.qkv, f"{name}.qkv", scaling), self.integers(HIDDEN, HIDDEN, HIDDEN), outputs=3, axis=-1
        )
        heads = [g.add("Reshape", part, self.integers(0, 0, HEADS, HEAD_SIZE)) for part in parts]
        q, k, v = (g.add("Transpose", head, perm=perm) for head, perm in zip(heads, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
        weights = g.add("Softmax", g.add("Add", g.add("MatMul", q, k), bias), axis=-1)
        mixed = g.add("Transpose", g.add("MatMul", weights, v), perm=[0, 2, 1, 3])
        mixed = g.add("Reshape", mixed, self.integers(0, 0, HIDDEN))
        x = self.norm(g.add("Add", x, self.linear(mixed, module.attended, f"{name}.attended")), module.attention_norm, f"{name}.attention_norm")
        wide = g.add("Gelu", self.linear(x, module.widen, f"{name}.widen"))
        return self.norm(g.add("Add", x, self.linear(wide, module.narrow, f"{name}.narrow")), module.output_norm, f"{name}.output_norm")

    def build(self) -> Graph:
        g = self.graph
        mask = g.add("Cast", "attention_mask", to=TensorProto.FLOAT)
        bias = g.add("Mul", g.add("Sub", self.number(1), mask), self.number(-1e4))
        bias = g.add("Unsqueeze", bias, self.integers(1, 2))
        x = self.embedded()
        for number in range(len(self.model.layers)):
            x = self.layer(x, bias, number)
        kept = g.add("Unsqueeze", mask, self.integers(2))
        total = g.add("ReduceSum", g.add("Mul", x, kept), self.integers(1), keepdims=0)
        pooled = g.add("Div", total, g.add("ReduceSum", mask, self.integers(1), keepdims=1))
        logits = self.linear(pooled, self.model.intent, "intent")
        g.add("Identity", logits, name="logits")
        return g


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--encoder", default="student.pt")
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()

    model = load(options.work / options.encoder)
    train = corpus.load(options.data, "train")
    graph = RegionGraph(model, observe(model, train.texts, options.work)).build()
    options.out.mkdir(parents=True, exist_ok=True)
    ids = (TensorProto.INT64, ["batch", "tokens"])
    path = options.out / "region.onnx"
    graph.save(path, {"input_ids": ids, "attention_mask": ids}, {"logits": ["batch", model.intent.out_features]}, "intent, region tier, INT8")
    shutil.copyfile(options.work / "tokenizer.json", options.out / "tokenizer.json")
    print(f"region.onnx {path.stat().st_size} bytes, tokenizer.json {(options.out / 'tokenizer.json').stat().st_size} bytes")


if __name__ == "__main__":
    main()
