"""Trains a network on with weights and activations rounded as INT8 will round them (Jacob et al. 2018), so that quantising
it afterwards costs less. Batch normalisation is folded into the convolutions first, as in the quantised graph.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from images import Images
from networks import EdgeNet, LOGIT_SCALE
from train import accuracy_of, load, train

LEVELS = 127


class Rounded(torch.autograd.Function):
    """The gradient passes straight through."""

    @staticmethod
    def forward(_context, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(_context, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


def rounded_weights(weight: torch.Tensor) -> torch.Tensor:
    """Symmetric, a scale for each output channel."""
    scale = weight.detach().abs().amax(tuple(range(1, weight.dim())), keepdim=True).clamp_min(1e-8) / LEVELS
    return Rounded.apply(weight / scale).clamp(-LEVELS, LEVELS) * scale


class RoundedActivations(nn.Module):
    """Affine in 8 bits, over the range that was seen lately."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            low, high = x.detach().float().aminmax()
            first = self.high == self.low
            self.low.copy_(torch.where(first, low, self.low.lerp(low, 0.05)).clamp_max(0))
            self.high.copy_(torch.where(first, high, self.high.lerp(high, 0.05)))
        scale = ((self.high - self.low) / 255).clamp_min(1e-8)
        return Rounded.apply(x.clamp(self.low, self.high) / scale) * scale


class RoundedLayer(nn.Module):
    def __init__(self, layer: nn.Conv2d | nn.Linear) -> None:
        super().__init__()
        self.layer, self.inputs = layer, RoundedActivations()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = rounded_weights(self.layer.weight)
        x = self.inputs(x)
        if isinstance(self.layer, nn.Conv2d):
            return nn.functional.conv2d(x, weight, self.layer.bias, padding=self.layer.padding)
        return nn.functional.linear(x, weight, self.layer.bias)


class Folded(nn.Module):
    """An edge network without batch normalisation."""

    def __init__(self, net: EdgeNet) -> None:
        super().__init__()
        net.eval()
        self.body = nn.Sequential(*(nn.Sequential(fuse_conv_bn_eval(one[0], one[1]), *one[2:]) for one in net.body))
        self.head = net.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3))) * LOGIT_SCALE

    def rounded(self) -> nn.Module:
        """The same layers, rounded in each pass."""
        result = Folded.__new__(Folded)
        nn.Module.__init__(result)
        result.body = nn.Sequential(*(nn.Sequential(RoundedLayer(one[0]), *one[1:]) for one in self.body))
        result.head = RoundedLayer(self.head)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--network", required=True)
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--peak", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    images, teacher = Images(options.work), load(options.work / options.teacher)
    folded = Folded(load(options.work / options.network))
    print(f"folded: validation {accuracy_of(folded, images.validation, images.validation_labels):.4f}")
    train(folded.rounded(), images, epochs=options.epochs, peak=options.peak, batch_size=512, seed=options.seed, teacher=teacher)
    torch.save(folded, options.work / options.out)


if __name__ == "__main__":
    main()
