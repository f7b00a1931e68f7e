"""Teachers' mean logits for train and for the augmented texts: train-logits.npy and <texts>-logits.npy.

    python label.py --data <clinc150> --work <work> --teachers teacher-1.pt teacher-2.pt --texts augmented
"""

import argparse
from pathlib import Path

import numpy as np
import torch

import corpus
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
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--teachers", nargs="+", required=True)
    arguments.add_argument("--texts", default="augmented")
    options = arguments.parse_args()
    torch.set_num_threads(2)
    teachers = [encoder.load(options.work / name) for name in options.teachers]
    augmented = (options.work / f"{options.texts}.txt").read_text(encoding="utf-8").split("\n")
    for name, texts in (("train", corpus.load(options.data, "train").texts), (options.texts, augmented)):
        tokens = Tokens(options.work / "tokenizer.json", texts)
        mean = sum(logits_of(teacher, tokens) for teacher in teachers) / len(teachers)
        np.save(options.work / f"{name}-logits.npy", mean.astype(np.float16))


if __name__ == "__main__":
    main()
