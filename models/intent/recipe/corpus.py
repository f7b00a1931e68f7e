"""Reads the CLINC150 files: queries, label numbers, and the fixed order of the 150 intents."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

OUT_OF_SCOPE = "oos"
OOS_INDEX = -1


@dataclass(frozen=True)
class Corpus:
    texts: list[str]
    targets: np.ndarray  # index into the intents, OOS_INDEX for out-of-scope queries

    @property
    def in_scope(self) -> np.ndarray:
        return self.targets != OOS_INDEX


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def intents(data: Path) -> list[str]:
    """The 150 intents in logit order: alphabetical, without out-of-scope."""
    return sorted({row["label"] for row in _rows(data / "train.jsonl")} - {OUT_OF_SCOPE})


def load(data: Path, split: str) -> Corpus:
    index = {label: i for i, label in enumerate(intents(data))}
    rows = _rows(data / f"{split}.jsonl")
    targets = [OOS_INDEX if row["label"] == OUT_OF_SCOPE else index[row["label"]] for row in rows]
    return Corpus([row["text"] for row in rows], np.array(targets, dtype=np.int64))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
