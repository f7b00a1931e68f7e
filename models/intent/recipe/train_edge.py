"""Distils the region tier, as served, into the edge student: on train queries and on many augmented ones.

    python train_edge.py --data <clinc150> --work <work> --teacher <artifacts> --texts augmented-edge --seed 1
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

import corpus
import scoring
from edge_student import EdgeStudent, pack
from hashed_ngrams import HashedNgramsConfig, hashed_ngrams
from served import region_logits

WARM_UP = 0.05
HARD_LABEL_WEIGHT = 0.3
EMPTY_TEXTS = 500  # texts without a word, taught as no intent at all


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, required=True, help="folder with region.onnx and tokenizer.json")
    parser.add_argument("--texts", default="augmented-edge")
    parser.add_argument("--buckets", type=int, default=5632)
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--hidden", type=int, default=448)
    parser.add_argument("--word-ngrams", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--char-ngrams", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--max-features", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rate", type=float, default=6e-3)
    parser.add_argument("--feature-dropout", type=float, default=0.05)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.manual_seed(options.seed)
    torch.set_num_threads(2)
    rng = np.random.default_rng(options.seed)
    config: HashedNgramsConfig = {
        "kind": "hashed-ngrams", "buckets": options.buckets, "wordNgrams": options.word_ngrams,
        "charNgrams": options.char_ngrams, "maxFeatures": options.max_features,
    }

    train, val = corpus.load(options.data, "train"), corpus.load(options.data, "val")
    augmented = (options.work / f"{options.texts}.txt").read_text(encoding="utf-8").split("\n")
    texts = train.texts + augmented
    soft = region_logits(options.teacher, texts)
    soft = np.concatenate([soft, np.zeros((EMPTY_TEXTS, soft.shape[1]), np.float32)])
    texts += [""] * EMPTY_TEXTS
    hard = np.full(len(texts), corpus.OOS_INDEX)
    hard[: len(train.targets)] = train.targets
    features = [np.array(hashed_ngrams(text, config), np.int32) for text in texts]
    val_features = pack([np.array(hashed_ngrams(text, config), np.int32) for text in val.texts])

    model = EdgeStudent(options.buckets, options.width, options.hidden, soft.shape[1])
    optimiser = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.0, fused=True)
    steps = options.epochs * math.ceil(len(features) / options.batch)
    step = 0
    for epoch in range(options.epochs):
        model.train()
        order = rng.permutation(len(features))
        for start in range(0, len(order), options.batch):
            rows = order[start : start + options.batch]
            done = step / steps
            optimiser.param_groups[0]["lr"] = options.rate * min(1, done / WARM_UP) * (1 + math.cos(math.pi * done)) / 2
            logits = model(*pack([features[i] for i in rows]), options.feature_dropout, options.dropout)
            target = torch.from_numpy(soft[rows]).softmax(-1)
            loss = functional.kl_div(logits.log_softmax(-1), target, reduction="batchmean")
            true = torch.from_numpy(hard[rows])
            known = true >= 0
            if known.any():
                loss = loss + HARD_LABEL_WEIGHT * functional.cross_entropy(logits[known], true[known]) * known.float().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
        model.eval()
        with torch.no_grad():
            print(epoch + 1, scoring.summary(model(*val_features).numpy(), val.targets), flush=True)
    torch.save(model.state_dict(), options.work / "edge.pt")
    (options.work / "edge-features.json").write_text(json.dumps(config), encoding="utf-8")


if __name__ == "__main__":
    main()
