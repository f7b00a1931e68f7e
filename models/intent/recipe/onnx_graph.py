"""A small builder of ONNX graphs, and the quantised pieces both tiers are made of.

Weights are INT8, symmetric, one scale per output channel, and use 7 of the 8 bits: 255 * 63 * 2 fits in 16 bits, so that CPUs
without VNNI, which add pairs of products in 16 bits, do not saturate. Activations are UINT8 with one fixed scale each, found on
train: a row's result therefore never depends on the other rows of its batch.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
IR_VERSION = 10
WEIGHT_LIMIT = 63


@dataclass
class Graph:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: dict[str, onnx.TensorProto] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def _fresh(self, kind: str) -> str:
        self.counts[kind] = self.counts.get(kind, -1) + 1
        return f"{kind}_{self.counts[kind]}"

    def constant(self, value: np.ndarray, name: str | None = None) -> str:
        """The name of an initializer that holds this value; equal unnamed ones are shared."""
        name = name or "_".join(["const", str(value.dtype), "x".join(map(str, value.shape)), *map(str, value.ravel())])
        if name not in self.initializers:
            self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def add(self, kind: str, *inputs: str, name: str | None = None, outputs: int = 1, **attributes: object) -> str | list[str]:
        """Adds a node and returns its output's name, or the list of names if it has several."""
        base = name or self._fresh(kind)
        names = [base] if outputs == 1 else [f"{base}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"node_{base}", **attributes))
        return names[0] if outputs == 1 else names

    def save(self, path: Path, inputs: dict[str, tuple[int, list[str | int]]], outputs: dict[str, list[str | int]], doc: str) -> None:
        """Checks the graph and writes it; `inputs` gives element type and shape, outputs are FP32."""
        graph = helper.make_graph(
            self.nodes, "intent",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
            list(self.initializers.values()), doc_string=doc,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="edgetier-intent")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString(deterministic=True))


@dataclass(frozen=True)
class ActivationRange:
    """What a UINT8 activation can express; always includes 0. Its channels are divided by `divisors` first, if there are any."""

    low: float
    high: float
    divisors: np.ndarray | None = None

    @property
    def scale(self) -> float:
        return max(self.high - self.low, 1e-8) / 255

    @property
    def zero_point(self) -> int:
        return int(np.clip(round(-self.low / self.scale), 0, 255))


def quantise_columns(weight: np.ndarray, limit: int = WEIGHT_LIMIT) -> tuple[np.ndarray, np.ndarray]:
    """INT8 weights and one FP32 scale per column of a [in, out] matrix."""
    scale = np.maximum(np.abs(weight).max(0), 1e-8).astype(np.float32) / limit
    return np.clip(np.round(weight / scale), -limit, limit).astype(np.int8), scale


def quantised_linear(graph: Graph, x: str, weight: np.ndarray, bias: np.ndarray, span: ActivationRange, name: str) -> str:
    """x @ weight + bias in QDQ form, which ONNX Runtime fuses to one integer matrix multiplication."""
    if span.divisors is not None:
        x = graph.add("Mul", x, graph.constant((1 / span.divisors).astype(np.float32), f"{name}.input_factor"))
        weight = weight * span.divisors[:, None]
    quantised, scale = quantise_columns(weight)
    span_scale = graph.constant(np.array(span.scale, np.float32), f"{name}.input_scale")
    span_zero = graph.constant(np.array(span.zero_point, np.uint8), f"{name}.input_zero_point")
    integers = graph.add("QuantizeLinear", x, span_scale, span_zero)
    activations = graph.add("DequantizeLinear", integers, span_scale, span_zero)
    weights = graph.add(
        "DequantizeLinear", graph.constant(quantised, f"{name}.weight"), graph.constant(scale, f"{name}.weight_scale"),
        graph.constant(np.zeros(len(scale), np.int8), f"{name}.weight_zero_point"), axis=1,
    )
    product = graph.add("MatMul", activations, weights)
    return graph.add("Add", product, graph.constant(bias.astype(np.float32), f"{name}.bias"))


def dequantised_rows(graph: Graph, table: np.ndarray, select: tuple[str, ...], rank: int, name: str, limit: int = 127) -> str:
    """Rows of an INT8 table, dequantised after they are selected, so that only those rows are ever FP32.

    `select` is an operator and its inputs after the table, such as ("Gather", "ids"); `rank` is that of the result.
    """
    quantised, scale = quantise_columns(table, limit)
    operator, *inputs = select
    rows = graph.add(operator, graph.constant(quantised, f"{name}.table"), *inputs)
    zero = graph.constant(np.zeros(len(scale), np.int8), f"{name}.zero_point")
    return graph.add("DequantizeLinear", rows, graph.constant(scale, f"{name}.scale"), zero, axis=rank - 1)
