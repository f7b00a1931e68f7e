"""The two networks: convolutions with batch normalisation, as wide as their tier can afford.

Both take pixels FP32 [n, 3, 32, 32], normalised by MEAN and STD, and give logits [n, 10].
"""

import torch
from torch import nn

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)
SIZE = 32
PATCH = 2
LOGIT_SCALE = 1 / 9


def norm(channels: int) -> nn.BatchNorm2d:
    """Without scales: the layers after it have their own."""
    result = nn.BatchNorm2d(channels)
    result.weight.requires_grad_(False)
    return result


def block(inputs: int, outputs: int, *, pool: bool = False) -> nn.Sequential:
    layers = [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), norm(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pool else []))


class RegionNet(nn.Module):
    """A network that learns in few epochs (Jordan 2024, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU"): its first layer
    whitens patches and is computed, not trained; the others begin as identities where they can.
    """

    def __init__(self, widths: tuple[int, ...] = (64, 256, 256)) -> None:
        super().__init__()
        channels = 3 * PATCH**2
        self.whiten = nn.Conv2d(3, 2 * channels, PATCH)
        self.whiten.weight.requires_grad_(False)
        layers = []
        for inputs, outputs in zip((2 * channels, *widths), widths):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.MaxPool2d(2), norm(outputs), nn.ReLU(inplace=True)]
            layers += block(outputs, outputs)
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(widths[-1], 10, bias=False)
        for layer in self.body:
            if isinstance(layer, nn.Conv2d):
                nn.init.dirac_(layer.weight.data[: layer.in_channels])

    @torch.no_grad()
    def prepare(self, pixels: torch.Tensor) -> None:
        """@param pixels some normalised images, whose patches' principal components become the first layer's kernels"""
        patches = pixels.unfold(2, PATCH, 1).unfold(3, PATCH, 1).permute(0, 2, 3, 1, 4, 5).reshape(-1, 3 * PATCH**2)
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        kernels = (vectors / (values + 5e-4).sqrt()).T.reshape(-1, 3, PATCH, PATCH)
        self.whiten.weight.data = torch.cat([kernels, -kernels])

    def folding(self) -> "RegionNet":
        """The same, with each normalisation right after its convolution, where exporters fold it: it has no scale below zero, so
        the greatest of a pool stays the greatest.
        """
        layers = list(self.body)
        for place in [place for place, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]:
            layers[place], layers[place + 1] = layers[place + 1], layers[place]
        self.body = nn.Sequential(*layers)
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.whiten(x).relu()).amax((2, 3))) * LOGIT_SCALE


class BothWays(nn.Module):
    """The mean of what a network says of an image and of its mirror image: what is served for the region."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = torch.stack([x, x.flip(3)], 1).reshape(-1, 3, SIZE, SIZE)
        return self.net(both).reshape(-1, 2, 10).mean(1)


class EdgeNet(nn.Module):
    """Plain convolutions: one kind of kernel, which an engine of few functions runs."""

    def __init__(self, widths: tuple[int, ...] = (24, 48, 96, 96, 128, 128)) -> None:
        super().__init__()
        a, b, c, d, e, f = widths
        self.body = nn.Sequential(block(3, a), block(a, b, pool=True), block(b, c, pool=True), block(c, d), block(d, e, pool=True), block(e, f))
        self.head = nn.Linear(f, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3))) * LOGIT_SCALE


NETWORKS = {"region": RegionNet, "edge": EdgeNet}
