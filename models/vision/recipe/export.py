"""Writes a trained network as an ONNX graph in FP32: `pixels` [n, 3, 32, 32] in, `logits` [n, 10] out."""

import argparse
from pathlib import Path

import onnx
import torch

from networks import SIZE, BothWays, RegionNet
from quantisation_aware import Folded
from train import load

OPSET = 17


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--network", required=True, help="a file in --work")
    parser.add_argument("--folded", action="store_true", help="it is quantisation_aware.py's")
    parser.add_argument("--both-ways", action="store_true", help="the image and its mirror image, one answer")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    path = options.work / options.network
    net = torch.load(path, weights_only=False) if options.folded else load(path)
    if options.folded:
        assert isinstance(net, Folded)
    if isinstance(net, RegionNet):
        net = net.folding()
    net = (BothWays(net) if options.both_ways else net).eval()
    example = torch.zeros(2, 3, SIZE, SIZE)
    batch = {0: "batch"}
    torch.onnx.export(net, (example,), options.out, dynamo=False, opset_version=OPSET, input_names=["pixels"], output_names=["logits"], dynamic_axes={"pixels": batch, "logits": batch})
    onnx.checker.check_model(onnx.load(options.out), full_check=True)
    print(f"{options.out}: {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
