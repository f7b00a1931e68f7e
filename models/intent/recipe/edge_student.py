"""The edge tier's network: a sum of hashed n-gram embeddings over the root of their number, and a small MLP."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class EdgeStudent(nn.Module):
    def __init__(self, buckets: int, width: int, hidden: int, labels: int) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, width)
        nn.init.normal_(self.table.weight, std=0.1)
        self.hidden = nn.Linear(width, hidden)
        self.intent = nn.Linear(hidden, labels)

    def forward(self, ids: Tensor, offsets: Tensor, counts: Tensor, feature_dropout: float = 0.0, dropout: float = 0.0) -> Tensor:
        """Logits of texts whose ids lie one after another, text i's from offsets[i], counts[i] of them."""
        weights = None
        if feature_dropout:
            weights = (torch.rand(len(ids)) > feature_dropout).float()
            rows = torch.repeat_interleave(torch.arange(len(counts)), counts.long())
            left = torch.zeros(len(counts)).index_add_(0, rows, weights)
            weights[(left == 0)[rows]] = 1.0  # a text keeps at least one feature
            counts = torch.where(left == 0, counts, left)
        total = functional.embedding_bag(ids, self.table.weight, offsets, mode="sum", per_sample_weights=weights, padding_idx=0)
        wide = functional.relu(self.hidden(total / counts.sqrt()[:, None]))
        return self.intent(functional.dropout(wide, dropout, self.training))


def pack(features: list[np.ndarray]) -> tuple[Tensor, Tensor, Tensor]:
    counts = np.array([len(ids) for ids in features])
    offsets = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return torch.from_numpy(np.concatenate(features)).long(), torch.from_numpy(offsets), torch.from_numpy(counts).float()


def load(path: Path) -> EdgeStudent:
    weights = torch.load(path, weights_only=True)
    buckets, width = weights["table.weight"].shape
    labels, hidden = weights["intent.weight"].shape
    model = EdgeStudent(buckets, width, hidden, labels)
    model.load_state_dict(weights)
    return model.eval()
