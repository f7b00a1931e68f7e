"""Runs the region tier's ONNX file as it is served: one query at a time gives the same logits as any batch of it, up to rounding."""

from pathlib import Path

import numpy as np
import onnxruntime

from batches import Tokens


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
