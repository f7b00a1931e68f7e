"""Token ids of many texts, cut into batches of nearly equal length so that little is padding."""

from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer


class Tokens:
    def __init__(self, tokenizer: Path, texts: list[str]) -> None:
        self.ids = [np.array(encoding.ids) for encoding in Tokenizer.from_file(str(tokenizer)).encode_batch(texts)]
        self.lengths = np.array([len(ids) for ids in self.ids])

    def tensors(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Padded ids and their mask, INT64 [rows, longest]."""
        longest = self.lengths[rows].max()
        ids = np.zeros((len(rows), longest), np.int64)
        for i, row in enumerate(rows):
            ids[i, : self.lengths[row]] = self.ids[row]
        mask = np.arange(longest)[None, :] < self.lengths[rows][:, None]
        return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))

    def by_length(self, size: int) -> list[np.ndarray]:
        order = np.argsort(self.lengths, kind="stable")
        return [order[i : i + size] for i in range(0, len(order), size)]

    def shuffled(self, rows: np.ndarray, size: int, rng: np.random.Generator) -> list[np.ndarray]:
        """One epoch over `rows` in random order; lengths are sorted only within stretches of 50 batches."""
        order = rng.permutation(rows)
        batches = []
        for start in range(0, len(order), 50 * size):
            stretch = order[start : start + 50 * size]
            stretch = stretch[np.argsort(self.lengths[stretch] + rng.normal(0, 1, len(stretch)))]
            batches += [stretch[i : i + size] for i in range(0, len(stretch), size)]
        return [batches[i] for i in rng.permutation(len(batches))]
