"""Finds the fixed UINT8 range of every linear layer's input on train queries.

A range is shrunk from the observed extremes to the one with the least squared rounding and clipping error.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from batches import Tokens
from onnx_graph import ActivationRange

QUERIES = 2048
SAMPLES = 200_000


def least_error(values: np.ndarray) -> ActivationRange:
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    best, best_error = ActivationRange(low, high), np.inf
    for low_share in np.linspace(0.4, 1, 13) if low < 0 else [1.0]:
        for high_share in np.linspace(0.4, 1, 13):
            span = ActivationRange(low * low_share, high * high_share)
            rounded = np.clip(np.round(values / span.scale) + span.zero_point, 0, 255)
            error = float((((rounded - span.zero_point) * span.scale - values) ** 2).mean())
            if error < best_error:
                best, best_error = span, error
    return best


@torch.no_grad()
def observe(model: nn.Module, texts: list[str], work: Path, seed: int = 0) -> dict[str, ActivationRange]:
    rng = np.random.default_rng(seed)
    seen: dict[str, list[np.ndarray]] = {}

    def record(name: str):
        def hook(_module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            x = inputs[0]
            rows = x[current[1].bool()] if x.dim() == 3 else x
            seen.setdefault(name, []).append(rows.float().numpy().ravel())
        return hook

    hooks = [m.register_forward_pre_hook(record(name)) for name, m in model.named_modules() if isinstance(m, nn.Linear)]
    tokens = Tokens(work / "tokenizer.json", [texts[i] for i in rng.choice(len(texts), QUERIES, replace=False)])
    model.eval()
    for batch in tokens.by_length(128):
        current = tokens.tensors(batch)
        model(*current)
    for hook in hooks:
        hook.remove()

    def sample(parts: list[np.ndarray]) -> np.ndarray:
        values = np.concatenate(parts)
        extremes = np.array([values.min(), values.max()])
        return np.concatenate([rng.choice(values, min(SAMPLES, len(values)), replace=False), extremes])

    return {name: least_error(sample(parts)) for name, parts in seen.items()}
