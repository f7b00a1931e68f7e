"""Teachers' mean logits for a list of texts.

    python label.py --work <work> --teachers teacher-1.pt teacher-2.pt --texts augmented.txt --out augmented-logits.npy
"""

import argparse
from pathlib import Path

import numpy as np
import torch

import encoder
from batches import Tokens


@torch.no_grad()
def logits_of(model: encoder.Encoder, tokens: Tokens, batch: int = 256) -> np.ndarray:
    result = np.empty((len(tokens.ids), model.intent.out_features), np.float32)
    for rows in tokens.by_length(batch):
        with torch.autocast("cpu", torch.bfloat16):
            result[rows] = model.eval()(*tokens.tensors(rows))[0].float().numpy()
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--teachers", nargs="+", required=True)
    arguments.add_argument("--texts", required=True)
    arguments.add_argument("--out", required=True)
    options = arguments.parse_args()
    torch.set_num_threads(2)
    tokens = Tokens(options.work / "tokenizer.json", (options.work / options.texts).read_text(encoding="utf-8").split("\n"))
    total = sum(logits_of(encoder.load(options.work / teacher), tokens) for teacher in options.teachers)
    np.save(options.work / options.out, (total / len(options.teachers)).astype(np.float16))


if __name__ == "__main__":
    main()
