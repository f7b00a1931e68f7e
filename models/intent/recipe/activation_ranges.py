"""Finds the fixed UINT8 range of every linear layer's input on train queries.

What comes out of a layer normalisation has a few channels many times larger than the rest. They are evened out first: divided by
what moves half of their spread (in logarithms) into the weights ("SmoothQuant", Xiao et al. 2023). A range is then shrunk from the
observed extremes to the one with the least squared rounding and clipping error.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from batches import Tokens
from onnx_graph import ActivationRange

QUERIES = 2048
SAMPLES = 200_000
EVENED = ("qkv", "widen")  # the layers whose input comes out of a layer normalisation


def least_error(values: np.ndarray, divisors: np.ndarray | None = None) -> ActivationRange:
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    best, best_error = ActivationRange(low, high, divisors), np.inf
    for low_share in np.linspace(0.4, 1, 13) if low < 0 else [1.0]:
        for high_share in np.linspace(0.4, 1, 13):
            span = ActivationRange(low * float(low_share), high * float(high_share), divisors)
            rounded = np.clip(np.round(values / span.scale) + span.zero_point, 0, 255)
            error = float((((rounded - span.zero_point) * span.scale - values) ** 2).mean())
            if error < best_error:
                best, best_error = span, error
    return best


def evening_divisors(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """One divisor per channel, from activations [rows, channels] and weights [outputs, channels]."""
    largest = np.maximum(np.abs(rows).max(0), 1e-3)
    return np.sqrt(largest / np.maximum(np.abs(weight).max(0), 1e-3)).astype(np.float32)


@torch.no_grad()
def observe(model: nn.Module, texts: list[str], work: Path, seed: int = 0) -> dict[str, ActivationRange]:
    """The range of every linear layer of the encoder, by the layer's name."""
    rng = np.random.default_rng(seed)
    seen: dict[str, list[np.ndarray]] = {}

    def record(name: str):
        def hook(_module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            x = inputs[0]
            rows = x[current[1].bool()] if x.dim() == 3 else x
            seen.setdefault(name, []).append(rows.float().numpy())
        return hook

    linears = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    hooks = [module.register_forward_pre_hook(record(name)) for name, module in linears.items()]
    tokens = Tokens(work / "tokenizer.json", [texts[i] for i in rng.choice(len(texts), QUERIES, replace=False)])
    model.eval()
    for batch in tokens.by_length(128):
        current = tokens.tensors(batch)
        model(*current)
    for hook in hooks:
        hook.remove()

    ranges = {}
    for name, parts in seen.items():
        rows = np.concatenate(parts)
        divisors = evening_divisors(rows, linears[name].weight.detach().numpy()) if name.endswith(EVENED) else None
        values = (rows if divisors is None else rows / divisors).ravel()
        chosen = rng.choice(values, min(SAMPLES, len(values)), replace=False)
        ranges[name] = least_error(np.append(chosen, [values.min(), values.max()]), divisors)
    return ranges
