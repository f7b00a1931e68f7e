"""The images of CIFAR-10's training part, decoded once, and the split into training and validation."""

import argparse
import hashlib
import io
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

SIZE = 32
VALIDATION_PER_CLASS = 500


def read(archive: Path) -> tuple[np.ndarray, np.ndarray, list[str], np.ndarray]:
    """@returns pixels UINT8 [n, 3, 32, 32], labels, the labels' names in their order, and which are for validation"""
    with tarfile.open(archive) as tar:
        members = sorted((one for one in tar.getmembers() if one.isfile() and one.name.endswith(".jpg")), key=lambda one: one.name)
        names = [Path(one.name).parent.name for one in members]
        pixels = [np.asarray(Image.open(io.BytesIO(tar.extractfile(one).read())).convert("RGB")) for one in members]
    classes = sorted(set(names))
    labels = np.array([classes.index(name) for name in names])
    # By a digest of the name: the same images whatever their order.
    digests = np.array([hashlib.sha256(one.name.encode()).hexdigest() for one in members])
    validation = np.zeros(len(members), bool)
    for label in range(len(classes)):
        own = np.flatnonzero(labels == label)
        validation[own[np.argsort(digests[own])[:VALIDATION_PER_CLASS]]] = True
    return np.stack(pixels).transpose(0, 3, 1, 2).copy(), labels, classes, validation


class Images:
    """What `python images.py` has written."""

    def __init__(self, work: Path) -> None:
        with np.load(work / "images.npz") as file:
            pixels, labels, validation = file["pixels"], file["labels"], file["validation"]
            self.classes = [str(name) for name in file["classes"]]
        self.train, self.train_labels = pixels[~validation], labels[~validation]
        self.validation, self.validation_labels = pixels[validation], labels[validation]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="train.tar.gz")
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    pixels, labels, classes, validation = read(options.data)
    np.savez(options.work / "images.npz", pixels=pixels, labels=labels, classes=classes, validation=validation)
    print(f"{len(labels)} images of {len(classes)} classes, {validation.sum()} for validation")


if __name__ == "__main__":
    main()
