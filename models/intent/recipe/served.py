"""Runs the ONNX files as they are served: one query at a time gives the same logits as any batch of it, up to rounding."""

import json
from pathlib import Path

import numpy as np
import onnxruntime

from batches import Tokens
from hashed_ngrams import hashed_ngrams


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def region_logits(artifacts: Path, texts: list[str], batch: int = 64) -> np.ndarray:
    session = _session(artifacts / "region.onnx")
    tokens = Tokens(artifacts / "tokenizer.json", texts)
    logits = np.empty((len(texts), session.get_outputs()[0].shape[1]), np.float32)
    for rows in tokens.by_length(batch):
        ids, mask = tokens.tensors(rows)
        logits[rows] = session.run(["logits"], {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
    return logits


def padded(features: list[list[int]]) -> np.ndarray:
    ids = np.zeros((len(features), max(map(len, features))), np.int32)
    for row, values in enumerate(features):
        ids[row, : len(values)] = values
    return ids


def edge_logits(artifacts: Path, texts: list[str], batch: int = 64) -> np.ndarray:
    session = _session(artifacts / "edge.onnx")
    config = json.loads((artifacts / "edge-features.json").read_text(encoding="utf-8"))
    features = [hashed_ngrams(text, config) for text in texts]
    parts = [session.run(["logits"], {"ids": padded(features[i : i + batch])})[0] for i in range(0, len(texts), batch)]
    return np.concatenate(parts)
