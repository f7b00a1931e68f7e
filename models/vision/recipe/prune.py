"""Makes the edge network narrower by and by: removes the channels that the next layer weighs least (all have the
same variance, being normalised; Li et al. 2017, "Pruning Filters for Efficient ConvNets", weighs the filters), and trains on between the steps.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import nn

from images import Images
from networks import EdgeNet
from train import accuracy_of, load, save, train


def narrowed(net: EdgeNet, widths: tuple[int, ...]) -> EdgeNet:
    """@returns the same network with so many channels left in each layer, the most important ones"""
    result = EdgeNet(widths)
    kept = torch.arange(3)
    readers = [*(layer[0].weight for layer in net.body[1:]), net.head.weight]
    for source, target, reader, width in zip(net.body, result.body, readers, widths):
        conv, norm = source[0], source[1]
        importance = reader.detach().abs().transpose(0, 1).flatten(1).sum(1)
        mine = importance.argsort(descending=True)[:width].sort().values
        target[0].weight.data = conv.weight.data[mine][:, kept].clone()
        for name in ("weight", "bias", "running_mean", "running_var"):
            getattr(target[1], name).data = getattr(norm, name).data[mine].clone()
        kept = mine
    result.head.weight.data = net.head.weight.data[:, kept].clone()
    result.head.bias.data = net.head.bias.data.clone()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--network", required=True, help="a wide edge network in --work")
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--widths", type=int, nargs="+", required=True, help="what is to be left")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--epochs", type=int, required=True, help="after each step")
    parser.add_argument("--last-epochs", type=int, required=True, help="after the last")
    parser.add_argument("--peak", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, net, teacher = Images(options.work), load(options.work / options.network), load(options.work / options.teacher)
    start = np.array([one[0].out_channels for one in net.body])
    for step in range(1, options.steps + 1):
        share = step / options.steps
        widths = tuple(int(width) for width in np.round(start + share * (np.array(options.widths) - start)))
        net = narrowed(net, widths)
        print(f"step {step}: {widths}, validation {accuracy_of(net, images.validation, images.validation_labels):.4f} before training on")
        epochs = options.last_epochs if step == options.steps else options.epochs
        train(net, images, epochs=epochs, peak=options.peak, batch_size=512, seed=options.seed + step, teacher=teacher)
    save(options.work / options.out, "edge", widths, net)


if __name__ == "__main__":
    main()
