"""Fine-tunes the encoder: a teacher on the hard labels, or a student on teachers' logits.

    python train_encoder.py --data <clinc150> --work <work> --out teacher-1.pt --seed 1
    python train_encoder.py --data <clinc150> --work <work> --out student.pt --from teacher-1.pt --layers 0 1 2 3 5 --texts augmented

Out-of-scope queries are pushed towards the uniform distribution ("outlier exposure", Hendrycks et al. 2019). What is saved is the
exponential moving average of the weights.
"""

import argparse
import copy
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import corpus
import encoder
import scoring
from batches import Tokens
from label import logits_of

WARM_UP = 0.1
OOS_REPEATS = 5
OOS_WEIGHT = 0.5
AVERAGING = 0.995
HARD_LABEL_WEIGHT = 0.2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--from", dest="start", help="a trained encoder to start from instead of the packaged weights")
    parser.add_argument("--layers", type=int, nargs="+", default=[0, 1, 2, 3, 4, 5], help="which layers to keep")
    parser.add_argument("--texts", help="distil: augmented texts with <texts>-logits.npy, and train-logits.npy")
    parser.add_argument("--augmented-per-epoch", type=int, default=15_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--head-rate", type=float, default=1e-3)
    parser.add_argument("--smoothing", type=float, default=0.0)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def starting_model(options: argparse.Namespace, labels: int) -> encoder.Encoder:
    if options.start is None:
        pieces = torch.from_numpy(np.load(options.work / "original-ids.npy"))
        return encoder.pretrained(pieces, options.layers, labels, options.dropout)
    model = encoder.load(options.work / options.start)
    model.layers = torch.nn.ModuleList(model.layers[number] for number in options.layers)
    return model


def hard_loss(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    inside = targets >= 0
    share = inside.float().mean()
    loss = functional.cross_entropy(logits[inside], targets[inside], label_smoothing=smoothing) * share
    if not inside.all():
        loss = loss - OOS_WEIGHT * logits[~inside].log_softmax(-1).mean() * (1 - share)
    return loss


def soft_loss(logits: Tensor, targets: Tensor, teachers: Tensor) -> Tensor:
    loss = functional.kl_div(logits.log_softmax(-1), teachers.softmax(-1), reduction="batchmean")
    known = targets >= 0
    if known.any():
        loss = loss + HARD_LABEL_WEIGHT * functional.cross_entropy(logits[known], targets[known]) * known.float().mean()
    return loss


def main() -> None:
    options = arguments()
    torch.manual_seed(options.seed)
    torch.set_num_threads(2)
    rng = np.random.default_rng(options.seed)

    train, val = corpus.load(options.data, "train"), corpus.load(options.data, "val")
    tokenizer = options.work / "tokenizer.json"
    texts, targets, soft, extra = train.texts, train.targets, None, np.array([], int)
    if options.texts:
        augmented = (options.work / f"{options.texts}.txt").read_text(encoding="utf-8").split("\n")
        soft = np.concatenate([np.load(options.work / f"{name}-logits.npy") for name in ("train", options.texts)])
        texts = texts + augmented
        targets = np.concatenate([targets, np.full(len(augmented), corpus.OOS_INDEX)])
        extra = rng.permutation(np.arange(len(train.texts), len(texts)))
    tokens, val_tokens = Tokens(tokenizer, texts), Tokens(tokenizer, val.texts)
    real = np.concatenate([np.flatnonzero(train.in_scope), *[np.flatnonzero(~train.in_scope)] * OOS_REPEATS])

    model = starting_model(options, 1 + int(train.targets.max()))
    average = copy.deepcopy(model).eval()
    head = list(model.intent.parameters())
    body = [parameter for name, parameter in model.named_parameters() if not name.startswith("intent")]
    rates = [options.rate, options.head_rate if options.start is None else options.rate]
    optimiser = torch.optim.AdamW([{"params": body}, {"params": head}], lr=options.rate, weight_decay=0.01, betas=(0.9, 0.98))
    per_epoch = len(real) + min(options.augmented_per_epoch, len(extra))
    steps, step = options.epochs * math.ceil(per_epoch / options.batch), 0

    for epoch in range(options.epochs):
        model.train()
        part = np.roll(extra, -epoch * options.augmented_per_epoch)[: options.augmented_per_epoch]
        for rows in tokens.shuffled(np.concatenate([real, part]), options.batch, rng):
            done = step / steps
            for group, rate in zip(optimiser.param_groups, rates):
                group["lr"] = rate * min(1, done / WARM_UP) * (1 + math.cos(math.pi * min(1, done))) / 2
            with torch.autocast("cpu", torch.bfloat16):
                logits, _ = model(*tokens.tensors(rows))
            truth = torch.from_numpy(targets[rows])
            if soft is None:
                loss = hard_loss(logits.float(), truth, options.smoothing)
            else:
                loss = soft_loss(logits.float(), truth, torch.from_numpy(soft[rows].astype(np.float32)))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            step += 1
            with torch.no_grad():
                weight = max(1 - AVERAGING, 10 / (step + 10))
                torch._foreach_lerp_(list(average.parameters()), list(model.parameters()), weight)
        print(epoch + 1, scoring.summary(logits_of(average, val_tokens), val.targets), flush=True)
    encoder.save(average, options.work / options.out)


if __name__ == "__main__":
    main()
