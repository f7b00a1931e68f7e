"""Writes the edge student as a quantised ONNX graph, with edge-features.json.

    python export_edge.py --data <clinc150> --work <work> --out <artifacts>

Input ids, INT32 [batch, features] padded with 0, whose row of the table is zero; output logits, FP32 [batch, 150].
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import torch
from onnx import TensorProto

import corpus
from activation_ranges import least_error
from edge_student import EdgeStudent, load, pack
from hashed_ngrams import hashed_ngrams
from onnx_graph import ActivationRange, Graph, dequantised_rows, quantised_linear


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().float().numpy()


def build(model: EdgeStudent, ranges: dict[str, ActivationRange]) -> Graph:
    g = Graph()
    features_axis = g.constant(np.array([1], np.int64))
    table = array(model.table.weight).copy()
    table[0] = 0
    rows = dequantised_rows(g, table, ("Gather", "ids"), 3, "table")
    total = g.add("ReduceSum", rows, features_axis, keepdims=0)
    present = g.add("Min", "ids", g.constant(np.array(1, np.int32)))
    count = g.add("Cast", g.add("ReduceSum", present, features_axis, keepdims=1), to=TensorProto.FLOAT)
    root = g.add("Sqrt", g.add("Max", count, g.constant(np.array(1, np.float32))))
    pooled = g.add("Div", total, root)
    hidden = quantised_linear(g, pooled, array(model.hidden.weight).T, array(model.hidden.bias), ranges["hidden"], "hidden")
    wide = g.add("Relu", hidden)
    logits = quantised_linear(g, wide, array(model.intent.weight).T, array(model.intent.bias), ranges["intent"], "intent")
    g.add("Identity", logits, name="logits")
    return g


@torch.no_grad()
def observe(model: EdgeStudent, texts: list[str], config: dict) -> dict[str, ActivationRange]:
    seen: dict[str, np.ndarray] = {}
    for name in ("hidden", "intent"):
        getattr(model, name).register_forward_pre_hook(lambda _module, inputs, name=name: seen.update({name: array(inputs[0]).ravel()}))
    model(*pack([np.array(hashed_ngrams(text, config)) for text in texts]))
    return {name: least_error(values) for name, values in seen.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()

    model = load(options.work / "edge.pt")
    config = json.loads((options.work / "edge-features.json").read_text(encoding="utf-8"))
    train = corpus.load(options.data, "train")
    graph = build(model, observe(model, train.texts, config))
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "edge.onnx"
    inputs = {"ids": (TensorProto.INT32, ["batch", "features"])}
    graph.save(path, inputs, {"logits": ["batch", model.intent.out_features]}, "intent, edge tier, INT8")
    shutil.copyfile(options.work / "edge-features.json", options.out / "edge-features.json")
    print(f"edge.onnx {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
