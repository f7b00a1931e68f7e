"""Averages the weights of networks that ended several triangles of learning rates (Izmailov et al. 2018, "Averaging Weights
Leads to Wider Optima and Better Generalization"), and finds the statistics of the average's normalisations anew.
"""

import argparse
from pathlib import Path

import torch

from images import Images
from train import accuracy_of, load, normalised, save

PARTS = 90


@torch.no_grad()
def averaged(paths: list[Path], images: Images) -> torch.nn.Module:
    states = [load(path).state_dict() for path in paths]
    net = load(paths[0])
    net.load_state_dict({name: sum(state[name] for state in states) / len(states) if value.is_floating_point() else value for name, value in states[0].items()})
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None
    net.train()
    for part in range(8):
        net(normalised(torch.from_numpy(images.train[part::PARTS])))
    return net.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--networks", nargs="+", required=True, help="files in --work")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    images = Images(options.work)
    paths = [options.work / name for name in options.networks]
    net = averaged(paths, images)
    saved = torch.load(paths[0], weights_only=True)
    print(f"validation {accuracy_of(net, images.validation, images.validation_labels):.4f}")
    save(options.work / options.out, saved["network"], tuple(saved["widths"]), net)


if __name__ == "__main__":
    main()
