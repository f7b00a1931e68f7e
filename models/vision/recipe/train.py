"""Trains a network, on labels or (--teacher) on what a better one says of the same augmented images.

SGD with Nesterov momentum, one triangle of learning rates, high ones for the biases of normalisations; crops of images padded by reflection,
each image mirrored in every other epoch (Jordan 2024), a square cut out if wanted (DeVries and Taylor 2017); label smoothing, or distillation (Hinton et al. 2015) at a temperature.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from images import Images
from networks import MEAN, NETWORKS, STD, RegionNet

LABEL_SMOOTHING = 0.2
MOMENTUM, WEIGHT_DECAY, BIAS_FACTOR = 0.85, 1.3e-3, 64
TEMPERATURE = 2.0


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """@param pixels from 0 to 255"""
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (pixels.float() / 255 - mean) / std


def augmented(padded: torch.Tensor, rows: torch.Tensor, mirrored: torch.Tensor, generator: torch.Generator, pad: int, cut: int) -> torch.Tensor:
    """@param padded normalised images, `pad` wider on each side"""
    count, size = len(rows), padded.shape[-1] - 2 * pad
    dy, dx = (torch.randint(0, 2 * pad + 1, (count,), generator=generator) for _ in range(2))
    ys = dy[:, None] + torch.arange(size)
    columns = torch.arange(size).expand(count, size)
    xs = dx[:, None] + torch.where(mirrored[:, None], columns.flip(1), columns)
    batch = padded[rows[:, None, None], :, ys[:, :, None], xs[:, None, :]].permute(0, 3, 1, 2).contiguous()
    if cut == 0:
        return batch
    cy, cx = (torch.randint(0, size, (count, 1), generator=generator) for _ in range(2))
    near_y, near_x = ((torch.arange(size) - centre).abs() < cut // 2 for centre in (cy, cx))
    return batch.masked_fill((near_y[:, :, None] & near_x[:, None, :])[:, None], 0)


@torch.inference_mode()
def logits_of(net: torch.nn.Module, pixels: np.ndarray) -> torch.Tensor:
    net.eval()
    return torch.cat([net(normalised(torch.from_numpy(part))) for part in np.array_split(pixels, max(1, len(pixels) // 500))])


def accuracy_of(net: torch.nn.Module, pixels: np.ndarray, labels: np.ndarray) -> float:
    return float((logits_of(net, pixels).argmax(1).numpy() == labels).mean())


def loss_of(logits: torch.Tensor, labels: torch.Tensor, taught: torch.Tensor | None) -> torch.Tensor:
    if taught is None:
        return F.cross_entropy(logits, labels, label_smoothing=LABEL_SMOOTHING)
    soft = F.kl_div(F.log_softmax(logits / TEMPERATURE, 1), F.softmax(taught / TEMPERATURE, 1), reduction="batchmean") * TEMPERATURE**2
    return 0.9 * soft + 0.1 * F.cross_entropy(logits, labels)


def optimiser_of(net: torch.nn.Module, peak: float, steps: int) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    biases = [module.bias for module in net.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    others = [parameter for parameter in net.parameters() if parameter.requires_grad and all(parameter is not bias for bias in biases)]
    groups = [{"params": others}, {"params": biases, "lr": peak * BIAS_FACTOR, "weight_decay": WEIGHT_DECAY / BIAS_FACTOR}]
    optimiser = torch.optim.SGD(groups, lr=peak, momentum=MOMENTUM, nesterov=True, weight_decay=WEIGHT_DECAY)
    rates = np.interp(np.arange(steps + 1) / steps, [0, 0.23, 1], [0.2, 1, 0.002])
    return optimiser, torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: float(rates[min(step, steps)]))


def train(net: torch.nn.Module, images: Images, *, epochs: int, peak: float, batch_size: int, seed: int, pad: int = 2, cut: int = 0, teacher: torch.nn.Module | None = None, checkpoint: Path | None = None) -> None:
    """@param checkpoint is written after each epoch, and gone on from where it is there"""
    generator = torch.Generator().manual_seed(seed)
    padded = F.pad(normalised(torch.from_numpy(images.train)), (pad,) * 4, mode="reflect")
    labels = torch.from_numpy(images.train_labels)
    mirrored_first = torch.rand(len(labels), generator=generator) < 0.5
    steps = epochs * (len(labels) // batch_size)
    optimiser, schedule = optimiser_of(net, peak, steps)
    net.to(memory_format=torch.channels_last)
    started = time.monotonic()
    first = 0
    if checkpoint is not None and checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        net.load_state_dict(saved["net"])
        optimiser.load_state_dict(saved["optimiser"])
        schedule.load_state_dict(saved["schedule"])
        generator.set_state(saved["generator"])
        first = saved["epoch"]
    for epoch in range(first, epochs):
        net.train()
        total = 0.0
        for rows in torch.randperm(len(labels), generator=generator).split(batch_size)[: len(labels) // batch_size]:
            batch = augmented(padded, rows, mirrored_first[rows] ^ (epoch % 2 == 1), generator, pad, cut).to(memory_format=torch.channels_last)
            with torch.autocast("cpu", torch.bfloat16):
                taught = None
                if teacher is not None:
                    with torch.no_grad():
                        taught = teacher(batch).float()
                logits = net(batch)
            loss = loss_of(logits.float(), labels[rows], taught)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        accuracy = accuracy_of(net, images.validation, images.validation_labels)
        print(f"epoch {epoch + 1} of {epochs}: loss {total / (len(labels) // batch_size):.4f}, validation {accuracy:.4f}, {time.monotonic() - started:.0f} s", flush=True)
        if checkpoint is not None:
            state = {"net": net.state_dict(), "optimiser": optimiser.state_dict(), "schedule": schedule.state_dict(), "generator": generator.get_state(), "epoch": epoch + 1}
            torch.save(state, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").rename(checkpoint)


def load(path: Path) -> torch.nn.Module:
    saved = torch.load(path, weights_only=True)
    net = NETWORKS[saved["network"]](tuple(saved["widths"]))
    net.load_state_dict(saved["state"])
    return net.eval()


def save(path: Path, network: str, widths: tuple[int, ...], net: torch.nn.Module) -> None:
    torch.save({"network": network, "widths": list(widths), "state": net.state_dict()}, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--network", choices=sorted(NETWORKS), required=True)
    parser.add_argument("--widths", type=int, nargs="+")
    parser.add_argument("--out", required=True, help="a file in --work")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--peak", type=float, default=0.75, help="highest learning rate, of mean losses")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--pad", type=int, default=2, help="pixels that crops move by at most")
    parser.add_argument("--cut", type=int, default=0, help="side of the square that is cut out")
    parser.add_argument("--teacher", help="a file in --work")
    parser.add_argument("--start", help="a file in --work to go on from, for another triangle (Loshchilov and Hutter 2017, SGDR)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images = Images(options.work)
    kind = NETWORKS[options.network]
    widths = tuple(options.widths or kind.__init__.__defaults__[0])
    net = kind(widths) if options.start is None else load(options.work / options.start)
    if options.start is None and isinstance(net, RegionNet):
        net.prepare(normalised(torch.from_numpy(images.train[::9])))
    print(f"{sum(parameter.numel() for parameter in net.parameters())} parameters")
    teacher = None if options.teacher is None else load(options.work / options.teacher)
    train(net, images, epochs=options.epochs, peak=options.peak, batch_size=options.batch_size, seed=options.seed, pad=options.pad, cut=options.cut, teacher=teacher, checkpoint=options.work / f"{options.out}.epoch")
    (options.work / f"{options.out}.epoch").unlink()
    save(options.work / options.out, options.network, widths, net)


if __name__ == "__main__":
    main()
